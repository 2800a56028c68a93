// Package telemetry measures what it costs a dispatcher to be measured, with handlers that
// do nothing.
package telemetry
