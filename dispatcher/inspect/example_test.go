package inspect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
)

func Example() {
	recorder := inspect.NewRecorder(200, func(account string) string { return "deposit to " + account })
	d, err := dispatcher.New(dispatcher.Config[string]{
		Keys: func(account string, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must("account", account))
			return nil
		},
		Handler:  func(context.Context, string) error { return nil },
		Observer: recorder.Observe, // only for the timeline
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	page, err := inspect.New(inspect.Config{
		Sources: []inspect.Named{{Name: "deposits", Source: d, Timeline: recorder}},
		// Without this, the page is read-only.
		Authorize: func(r *http.Request, source string, a view.Action) (who string, err error) {
			who, _, ok := r.BasicAuth()
			if !ok {
				return "", fmt.Errorf("log in to %s %s", a.Name, a.Target)
			}
			return who, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/interlock/", http.StripPrefix("/interlock", page))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/interlock/health.json", nil))
	fmt.Print(answer.Body)
	// Output:
	// {
	//   "deposits": {
	//     "state": "healthy"
	//   }
	// }
}
