package main

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// some returns the share of a number that is placed, as an argument.
func some(n int) string { return strconv.Itoa(n / share) }

// Whatever fails, all fits together in the end.
func TestSimulation(t *testing.T) {
	node := broker(t)
	for name, args := range map[string][]string{
		"local":           {"-orders", some(200)},
		"HTTP":            {"-orders", some(100), "-transport", "http", "-token", "secret"},
		"gRPC":            {"-orders", some(100), "-transport", "grpc", "-token", "secret"},
		"RabbitMQ":        {"-orders", some(100), "-transport", "amqp", "-broker", node.URL()},
		"without Keep":    {"-orders", some(100), "-isolated=false", "-seed", "2"},
		"a bad gateway":   {"-orders", some(40), "-unreliable", "0.3", "-seed", "3"},
		"without failing": {"-orders", some(60), "-unreliable", "0"},
		"nothing":         {"-orders", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, err strings.Builder
			require.Equal(t, exitGood, run(t.Context(), args, &out, &err), "%s\n%s", out.String(), err.String())
			require.NotContains(t, out.String(), "WRONG")
			require.Equal(t, 12, strings.Count(out.String(), " ok\n"), out.String())
		})
	}
}

func TestUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"-orders is -1":               {"-orders", "-1"},
		"-unreliable is 2":            {"-unreliable", "2"},
		`-transport is "pigeon"`:      {"-transport", "pigeon"},
		"need each other":             {"-transport", "amqp"},
		"must be a URL of Postgre":    {"-db", "orders.db"},
		`-service is "tax"`:           {"-service", "tax", "-listen", ":0"},
		"-service needs -listen":      {"-service", "payment"},
		"leave out the URLs":          {"-service", "payment", "-listen", ":0", "-shipping", "grpc://127.0.0.1:1"},
		"is too much":                 {"now"},
		"flag provided but not defin": {"-x"},
	} {
		var out, err strings.Builder
		assert.Equal(t, exitUsage, run(t.Context(), args, &out, &err))
		assert.Contains(t, err.String(), want)
	}
	var out, err strings.Builder
	assert.Equal(t, exitGood, run(t.Context(), []string{"-h"}, &out, &err))
	assert.Equal(t, exitBad, run(t.Context(), []string{"-payment", "http://127.0.0.1:1"}, &out, &err))
	assert.Contains(t, err.String(), "only of services in this process")
	ctx, cancel := context.WithTimeout(t.Context(), waitAtMost) // until which it would be served
	defer cancel()
	assert.Equal(t, exitBad, run(ctx, []string{"-listen", ":0", "-payment", "127.0.0.1:1"}, &out, &err))
	assert.Contains(t, err.String(), `the payment service: its URL is "127.0.0.1:1"`)
}
