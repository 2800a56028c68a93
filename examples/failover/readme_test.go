package main

import (
	"testing"

	"github.com/interlock-go/interlock/internal/snippets"
)

func TestTheReadmeShowsTheSource(t *testing.T) { snippets.Linked(t, "README.md") }
