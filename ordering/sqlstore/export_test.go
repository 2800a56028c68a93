package sqlstore

// Steps are the versions of the schema, for tests of what older ones become.
var Steps = steps
