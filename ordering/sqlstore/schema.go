package sqlstore

import (
	"fmt"

	"github.com/interlock-go/interlock/internal/sqldb"
)

// steps are the versions of the schema.
//
// Invariant: of a stream, the numbers up to last are done, and those in its
// spans in ordering_done, which start above last+1 and neither overlap nor
// touch; the column spans is how many there are.
func steps(d sqldb.Dialect) []string {
	text := d.Text()
	return []string{
		fmt.Sprintf(`
			CREATE TABLE ordering_streams (
				stream    %[1]s PRIMARY KEY,
				last      BIGINT NOT NULL,
				spans     BIGINT NOT NULL DEFAULT 0,
				ended     BIGINT NOT NULL DEFAULT 0,
				fence     BIGINT NOT NULL DEFAULT 0,
				parking   %[1]s NOT NULL DEFAULT '',
				closed_at BIGINT NOT NULL DEFAULT 0
			);
			CREATE INDEX ordering_streams_parking ON ordering_streams (parking) WHERE parking <> '';
			CREATE TABLE ordering_done (
				stream %[1]s NOT NULL,
				first  BIGINT NOT NULL,
				last   BIGINT NOT NULL,
				PRIMARY KEY (stream, first)
			);
			CREATE TABLE ordering_jobs (
				event     %[1]s PRIMARY KEY,
				positions TEXT NOT NULL,
				status    BIGINT NOT NULL,
				attempts  BIGINT NOT NULL,
				error     TEXT NOT NULL,
				started   BIGINT NOT NULL,
				ended     BIGINT NOT NULL
			);
			CREATE INDEX ordering_jobs_ended ON ordering_jobs (ended);
			CREATE TABLE ordering_held (
				event    %[1]s PRIMARY KEY,
				body     TEXT NOT NULL,
				attempts BIGINT NOT NULL,
				started  BIGINT NOT NULL
			);
			CREATE TABLE ordering_held_positions (
				stream %[1]s NOT NULL,
				number BIGINT NOT NULL,
				event  %[1]s NOT NULL,
				PRIMARY KEY (stream, number, event)
			);
			CREATE INDEX ordering_held_events ON ordering_held_positions (event);
			CREATE TABLE ordering_parkings (
				id    %[1]s PRIMARY KEY,
				since BIGINT NOT NULL,
				body  TEXT NOT NULL
			);
			CREATE TABLE ordering_parked_events (
				parking %[1]s NOT NULL,
				event   %[1]s NOT NULL,
				PRIMARY KEY (parking, event)
			);
			CREATE INDEX ordering_parked_events_event ON ordering_parked_events (event);
			CREATE TABLE ordering_session (token BIGINT NOT NULL);
			INSERT INTO ordering_session (token) VALUES (0)`, text),
	}
}
