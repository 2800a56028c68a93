package sqlstore

// Steps are the versions of the schema, for tests of what older ones become.
var Steps = steps

// Statements about parked streams, for a test of how SQLite carries them out.
var ParkedStatements = []string{openStreams, closedStreams + ` IN ($2))`, closedStreams + ` <> '')`}
