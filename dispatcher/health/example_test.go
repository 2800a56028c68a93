package health_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/health"
	"github.com/interlock-go/interlock/lockkeys"
)

func Example() {
	d, err := dispatcher.New(dispatcher.Config[string]{
		Keys:    func(account string, claim *lockkeys.Claim) error { claim.Exclusive(lockkeys.Must(account)); return nil },
		Handler: func(context.Context, string) error { return nil },
	})
	if err != nil {
		panic(err)
	}
	defer d.Close()
	monitor, err := health.New(health.Config{Sources: []health.Source{{Name: "payments", Source: d}}})
	if err != nil {
		panic(err)
	}
	defer monitor.Close()
	mux := http.NewServeMux()
	mux.Handle("/livez", monitor.Live())
	mux.Handle("/readyz", monitor.Ready())
	mux.Handle("/stalledz", monitor.Stalled())
	for _, path := range []string{"/livez", "/readyz", "/stalledz"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 {"status":"live"}
	// 200 {"status":"ready"}
	// 200 {"status":"not stalled"}
}
