package inspect_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/ordering"
)

// browser is a tab of a headless Chromium of the system.
type browser struct {
	*testing.T
	ctx context.Context
}

func newBrowser(t *testing.T) browser {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, // the tests may run as root
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(waitAtMost))
	allocator, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(stop)
	require.NoError(t, chromedp.Do(ctx), "apt-get install chromium")
	return browser{t, ctx}
}

// do does steps one after the other.
func (b browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitAtMost)
	defer cancel()
	require.NoError(b, chromedp.Do(ctx, steps...))
}

// value is the value of an expression.
func value[V any](b browser, expression string, options ...chromedp.EvaluateOption) V {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitAtMost)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[V](expression, options...))
	require.NoError(b, err, expression)
	return v
}

// shot keeps a picture of the page if INSPECT_SCREENSHOTS names a directory for it: those
// in the documents are made so.
func (b browser) shot(name string) {
	dir := os.Getenv("INSPECT_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
}

// shows waits until the page has all of some texts.
func (b browser) shows(texts ...string) {
	b.Helper()
	for _, text := range texts {
		require.Eventually(b, func() bool {
			has, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`document.body.innerText.includes(%q)`, text)))
			return err == nil && has // an error if it goes to another page
		}, waitAtMost, 10*time.Millisecond, text)
	}
}

// A handler fails. The person on call opens the page, sees what is parked, asks why a
// credit check waits, decides once the cause is mended, and sees all go on.
func TestOnCall(t *testing.T) {
	orders, secret := parkedOrders(t)
	b := newBank(t, true, func(c *inspect.Config) {
		c.Sources = append(c.Sources, inspect.Named{Name: "orders", Source: orders})
		c.Show = func(_ string, message any) string {
			if e, is := message.(*ordering.Event); is {
				return strings.ReplaceAll(string(e.Payload), secret, "***")
			}
			return ""
		}
	})
	var mended atomic.Bool
	nothing := func(context.Context) error { return nil }
	end := make(chan struct{})
	defer close(end)
	long := func(context.Context) error { <-end; return nil }
	b.submit(t, "payment 900", "client/1/account/7", func(context.Context) error {
		if !mended.Load() {
			return dispatcher.Permanent(errors.New("the gateway does not know account 7"))
		}
		return nil
	})
	require.Eventually(t, func() bool { return b.Stats().Parked == 1 }, waitAtMost, time.Millisecond)
	b.submit(t, "payment 901", "client/1/account/7", nothing)
	b.submit(t, "credit check 902", "client/1", nothing)
	b.submit(t, "end of day 903", "client/2", long)
	b.submit(t, "deposit 904", "client/2/account/1", long)
	b.submit(t, "deposit 905", "client/2/account/2", long)
	b.submit(t, "report 906", "client/2", long)
	tab := newBrowser(t)
	page := b.server.URL + "/ops/interlock/"
	const live = "Updated as things happen."

	t.Log("what is wrong")
	tab.do(chromedp.EmulateViewport(1000, 900), chromedp.Navigate(page))
	tab.shows(live, "1 parked: an operator must decide; 2 wait behind", "the gateway does not know account 7")
	tab.shot("overview")

	t.Log("why does the credit check wait?")
	tab.do(chromedp.SendKeys("#q", "credit check"+kb.Enter))
	tab.shows("Only what is about credit check", "credit check 902 has waited", live)
	tab.shot("why")

	t.Log("by keyboard: the first stop is the way to the content")
	tab.do(chromedp.Navigate(page + "?tab=parked"))
	tab.shows(live, "payment 900")
	tab.do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "To the content", value[string](tab, `document.activeElement.textContent`))

	t.Log("without a reason nothing is done, and what is typed stays while the page changes")
	mended.Store(true)
	tab.do(chromedp.Click(`button.resume`), chromedp.SendKeys(`input[name=why]`, "the gateway was mended"))
	b.submit(t, "payment 907", "client/1/account/7", nothing)
	tab.shows("3 wait behind it")
	require.Equal(t, "the gateway was mended", value[string](tab, `document.querySelector("input[name=why]").value`))
	require.Equal(t, "why", value[string](tab, `document.activeElement.name`), "the focus stays too")
	require.Equal(t, 1, b.Stats().Parked)
	tab.shot("parked")

	t.Log("resumed by keyboard, and all behind it goes on")
	tab.do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "resume payment 900", value[string](tab, `document.activeElement.ariaLabel`))
	tab.do(chromedp.KeyEvent(kb.Enter))
	tab.shows("No message is parked.")
	require.Eventually(t, func() bool { return b.Stats().Succeeded == 4 }, waitAtMost, time.Millisecond)
	tab.do(chromedp.Navigate(page + "?tab=audit"))
	tab.shows("the gateway was mended", "/1 of transfers")

	t.Log("what is in a parked event: readable, without what is secret, on a page without a script")
	tab.do(chromedp.Navigate(page + "?source=orders&tab=parked"))
	tab.shows(live, "order 1 after 1 attempts", "Payload")
	tab.do(chromedp.Click(`td a[href^="payload"]`))
	tab.shows("Parked in orders", "{\n  \"card\": \"***\",\n  \"item\": \"<kettle>\"\n}")
	require.Zero(t, value[int](tab, `document.scripts.length`))
	tab.shot("payload")
	opened := value[string](tab, `location.search`)
	tab.do(chromedp.Click(`main p a`))
	tab.shows(live, "order 1 after 1 attempts")

	t.Log("everywhere: nothing that keeps somebody out, nothing wider than a telephone")
	axe := axe(t)
	for _, scheme := range []string{"light", "dark"} {
		dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		_, err := chromedp.Call(tab.ctx, emulation.SetEmulatedMedia, dark)
		require.NoError(t, err)
		for name, at := range map[string]string{
			"overview": "?tab=overview", "keys": "?tab=keys", "blocked": "?tab=blocked", "hot": "?tab=hot", "parked": "?tab=parked",
			"timeline": "?tab=timeline", "audit": "?tab=audit", "streams": "?source=orders&tab=parked", "payload": "payload" + opened,
		} {
			for _, width := range []int64{360, 1000} {
				tab.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(page+at))
				if name == "payload" {
					tab.shows("Parked in orders")
				} else {
					tab.shows(live)
				}
				value[chromedp.Void](tab, axe)
				violations := value[[]string](tab, `axe.run().then(r => r.violations.map(v => v.id + ": " +
					v.nodes.map(n => n.html + " " + n.failureSummary).join("; ")))`, chromedp.EvalAwaitPromise)
				require.Empty(t, violations, "%s, %s, %d wide", name, scheme, width)
				over := value[float64](tab, `document.documentElement.scrollWidth - innerWidth`)
				require.LessOrEqual(t, over, 0.0, "%s is wider than %d", name, width)
				tab.shot(fmt.Sprint(name, "-", scheme, "-", width))
			}
		}
	}
}

// axe is the source of axe-core.
func axe(t *testing.T) string {
	file, err := os.Open(filepath.Join("testdata", "axe-4.14.1.min.js.gz"))
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	var text strings.Builder
	_, err = io.Copy(&text, unzipped)
	require.NoError(t, err)
	return text.String() + ";0"
}
