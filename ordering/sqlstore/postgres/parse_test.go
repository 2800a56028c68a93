package postgres

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAPasswordIsNotTold in any error of a URL, however the URL is broken by it.
func TestAPasswordIsNotTold(t *testing.T) {
	for _, url := range []string{
		"postgres://user:s3cr3t@host:port/db",
		"postgres://user:s3/cr3t@host/db",
		"postgres://user:s3#cr3t@host/db",
		"postgres://user:s3?cr3t@host/db",
		"postgres://user:12?s3cr3t@host/db",
		"postgres://user:s3%zzcr3t@host/db",
		"postgres://user:s3 cr3t@host/db?sslmode=nonsense",
		"postgres://user:s3cr3t@host/db?sslmode=nonsense",
		"postgres://user:s3cr3t@host/db?sslrootcert=/no/such/file",
		"postgres://user:s3cr3t@host/db?pool_max_conns=s3",
		"postgres://user:s3cr3t@host/db?pool_max_conns=0",
		"postgres://user:s3cr3t@host/db?connect_timeout=x",
		"postgres://user@host/db?password=s3cr3t&sslmode=nonsense",
		"postgres://host:x/db?user=u&password=s3cr3t",
		"postgres://[::1/db?password=s3cr3t",
		"host=h user=u password=s3 cr3t",
		"host=h user=u password='s3cr3t",
		"host=h user=u password=s3cr3t sslmode=nonsense",
		"host=h user=u password=s3cr3t port=x",
		"password=s3cr3t postgres://",
	} {
		_, err := Open(t.Context(), url)
		require.Error(t, err, url)
		for _, part := range []string{"s3", "cr3t"} {
			assert.NotContains(t, strings.ReplaceAll(err.Error(), "pool_max_conns", ""), part, url)
		}
		t.Log(err)
	}
}

// TestWhereNobodyAnswers: neither does the error of a connection tell it.
func TestWhereNobodyAnswers(t *testing.T) {
	for _, url := range []string{
		"postgres://user:s3cr3t@127.0.0.1:1/db",
		"host=127.0.0.1 port=1 user=u dbname=db password=s3cr3t",
	} {
		_, err := Open(t.Context(), url)
		require.ErrorContains(t, err, "db at 127.0.0.1")
		assert.NotContains(t, err.Error(), "s3cr3t")
	}
}

func TestParametersOfTheStore(t *testing.T) {
	config, connections, err := parse("postgres://u@h/d?pool_max_conns=7&search_path=x")
	require.NoError(t, err)
	assert.Equal(t, 7, connections)
	assert.NotContains(t, config.RuntimeParams, "pool_max_conns")
	assert.Equal(t, "x", config.RuntimeParams["search_path"])
	_, connections, err = parse("host=h user=u dbname=d")
	require.NoError(t, err)
	assert.Equal(t, 64, connections)
}
