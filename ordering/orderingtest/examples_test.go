package orderingtest_test

import "testing"

// TestExamples runs what the example shows.
func TestExamples(t *testing.T) {
	t.Run("pay", testPay)
	t.Run("pay alone", testPayAlone)
}
