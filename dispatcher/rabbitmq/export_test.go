package rabbitmq

// Answered is for the tests of this package.
var Answered = answered

// ErrNoAnswer likewise.
var ErrNoAnswer = errNoAnswer
