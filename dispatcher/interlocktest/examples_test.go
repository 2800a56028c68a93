package interlocktest_test

import "testing"

// TestExamples runs what the example shows.
func TestExamples(t *testing.T) {
	t.Run("deposits", testDeposits)
	t.Run("deposit", testDeposit)
}
