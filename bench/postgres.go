package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"pgkinetic/bench/measure"
	"pgkinetic/bench/targets"
	"pgkinetic/internal/pgtest"
)

// postgres is the PostgreSQL behind all targets: one that is started for the run, or the one of -dsn.
type postgres struct {
	targets.Server
	version    string
	bin        string // directory of its client programs
	dir        string // for everybody's files; goes with close
	postmaster int    // process; 0: on another machine
	ours       bool
	close      func()
}

// maxConnections is room for 1 000 direct clients and the pools of all targets.
const maxConnections = 1500

// openPostgres starts a server, or finds the one of the DSN.
func openPostgres(ctx context.Context, dsn string) (p *postgres, err error) {
	if dsn == "" {
		p, err = startPostgres()
	} else {
		p, err = findPostgres(dsn)
	}
	if err != nil {
		return nil, err
	}
	if err := p.ask(ctx); err != nil {
		p.close()
		return nil, fmt.Errorf("PostgreSQL on %s:%d: %w", p.Host, p.Port, err)
	}
	return p, nil
}

// startPostgres starts one that does TLS with whoever asks for it.
func startPostgres() (*postgres, error) {
	dir, remove, err := pgtest.PrivateDir()
	if err != nil {
		return nil, err
	}
	cert, key, err := targets.CertificateFiles(dir, pgtest.Unprivileged())
	if err != nil {
		remove()
		return nil, err
	}
	s, err := pgtest.New(
		pgtest.MaxConnections(maxConnections), pgtest.Setting("shared_buffers", "512MB"),
		pgtest.Setting("ssl", "on"), pgtest.Setting("ssl_cert_file", cert), pgtest.Setting("ssl_key_file", key),
	)
	if err != nil {
		remove()
		return nil, err
	}
	return &postgres{
		Server: targets.Server{Host: "127.0.0.1", Port: s.Port, User: "postgres", Database: "postgres"},
		bin:    s.Bin, dir: s.SocketDir(), ours: true, close: func() { s.Remove(); remove() },
	}, nil
}

func findPostgres(dsn string) (*postgres, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(config.Host, "/") {
		return nil, errors.New("-dsn names a Unix socket; the targets reach PostgreSQL by TCP")
	}
	bin, err := pgtest.Programs()
	if err != nil {
		return nil, err
	}
	dir, remove, err := pgtest.PrivateDir()
	return &postgres{
		Server: targets.Server{
			Host: config.Host, Port: int(config.Port), User: config.User, Password: config.Password, Database: config.Database,
		},
		bin: bin, dir: dir, close: remove,
	}, err
}

// ask fills in what only PostgreSQL itself knows.
func (p *postgres) ask(ctx context.Context) error {
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return err
	}
	config.Host, config.Port, config.User, config.Password = p.Host, uint16(p.Port), p.User, p.Password
	config.Database, config.Fallbacks = p.Database, nil
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var backend int
	if err := conn.QueryRow(ctx, "select current_setting('server_version'), pg_backend_pid()").Scan(&p.version, &backend); err != nil {
		return err
	}
	p.postmaster = measure.Postmaster(backend)
	if p.ours && p.postmaster == 0 {
		return errors.New("its process was not found")
	}
	return nil
}

// scratch makes a directory for the files of the loads: not that of the server, whose owner is somebody else.
func scratch() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "bench-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
