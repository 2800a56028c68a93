package inspect

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var assets embed.FS

// policy allows what comes from the program itself, and no code in the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (in *Inspector) routes() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the directory is in the program
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", in.servePage)
	mux.HandleFunc("GET /stream", in.serveStream)
	mux.HandleFunc("GET /view.json", in.serveView)
	mux.HandleFunc("GET /payload", in.servePayload)
	mux.HandleFunc("GET /payload.json", in.servePayloadJSON)
	mux.HandleFunc("GET /why.json", in.serveWhy)
	mux.HandleFunc("GET /health.json", in.serveHealth)
	mux.HandleFunc("GET /audit.json", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, in.audit.list()) })
	mux.HandleFunc("GET /timeline.json", in.serveTimeline)
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServerFS(files)))
	mux.HandleFunc("POST /act", in.serveAct)
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if r.URL.Path == "" { // links are relative to a path that ends in a slash
			goTo(w, path.Base(strings.SplitN(r.RequestURI, "?", 2)[0])+"/", http.StatusMovedPermanently)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// goTo redirects to an address that is relative to the one that was asked for, whatever
// prefix was stripped from it; [http.Redirect] would make it absolute.
func goTo(w http.ResponseWriter, address string, status int) {
	w.Header().Set("Location", address)
	w.WriteHeader(status)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s\n", body)
}

func writeError(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, map[string]string{"error": err.Error()})
}
