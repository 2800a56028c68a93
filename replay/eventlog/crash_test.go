package eventlog_test

const childEnv = "INTERLOCK_EVENTLOG_CHILD"

func child(string) {}
