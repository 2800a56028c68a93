// Package pb has the messages and services of orders.proto, made into Go.
package pb

//go:generate go run github.com/bufbuild/buf/cmd/buf@v1.75.0 generate
