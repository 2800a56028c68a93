// Package ordering puts events in the order in which their producer numbered
// them and makes at-least-once delivery an exactly-once effect.
package ordering
