package sqldb

import "errors"

// IsConflict reports whether a database's error is for a conflict with another
// transaction, after which the transaction is rolled back and run again.
func IsConflict(err error) bool {
	var postgres interface{ SQLState() string }
	var sqlite interface{ Code() int }
	switch {
	case errors.As(err, &postgres):
		switch postgres.SQLState() {
		case "40P01", "40001", "55P03": // deadlock, no serial order, lock_timeout
			return true
		}
	case errors.As(err, &sqlite):
		switch sqlite.Code() & 0xff {
		case 5, 6: // SQLITE_BUSY, SQLITE_LOCKED
			return true
		}
	}
	return false
}

// IsConstraint reports whether SQLite has refused a statement because of the data. The
// statement has changed nothing then, and the transaction can go on.
func IsConstraint(err error) bool {
	const constraint = 19 // SQLITE_CONSTRAINT
	var sqlite interface{ Code() int }
	return errors.As(err, &sqlite) && sqlite.Code()&0xff == constraint
}
