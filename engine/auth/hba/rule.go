package hba

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
)

// LoadRules reads an HBA file and those that it includes. from is where its name
// is written: problems that belong to no line of a file are told of there. When
// there are problems (all of them are told, with their places), there are no
// Rules. It reads files and asks for the machine's interfaces, so it is nothing
// for a loop.
func LoadRules(source Source, name string, from configs.Place) (*Rules, []configs.Problem) {
	r := &reader{files: source.Files}
	rules := &Rules{}
	for _, rec := range r.file(name, 0, from) {
		p := lineParser{reader: r, record: rec, interfaces: source.Interfaces}
		rules.rules = append(rules.rules, p.rule())
	}
	if len(r.problems) == 0 && len(rules.rules) == 0 {
		r.fail(from, "%q has no line, so nobody could log in", name)
	}
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	rules.rules = slices.Clip(rules.rules)
	return rules, nil
}

// lineParser reads the fields of one line, from left to right.
type lineParser struct {
	*reader
	record
	interfaces func() ([]net.Addr, error)
	at         int  // the next field
	stopped    bool // no sense can be made of the rest
}

// next returns the next field; what is called in the message that says that the
// line ends before it.
func (p *lineParser) next(what string) (f field, ok bool) {
	if p.stopped {
		return nil, false
	}
	if p.at == len(p.fields) {
		p.fail(p.end, "the line ends before %s", what)
		p.stopped = true
		return nil, false
	}
	p.at++
	return p.fields[p.at-1], true
}

// one returns the next field, which has to be one word.
func (p *lineParser) one(what string) (w word, ok bool) {
	f, ok := p.next(what)
	switch {
	case !ok:
		return word{}, false
	case len(f) == 0:
		p.fail(p.place, "%s is an empty file", what)
		return word{}, false
	case len(f) > 1:
		p.fail(f[1].place, "several values for %s", what)
		return word{}, false
	}
	return f[0], true
}

// rule reads the line; it is of use only when there were no problems.
func (p *lineParser) rule() rule {
	rule := rule{line: Line{Place: p.place}}
	p.connection(&rule)
	if f, ok := p.next("the databases"); ok {
		rule.databases = p.databases(f)
	}
	if f, ok := p.next("the users"); ok {
		rule.users = p.users(f)
	}
	if rule.connection != local {
		p.addresses(&rule)
	}
	p.method(&rule)
	for !p.stopped && p.at < len(p.fields) {
		for _, w := range p.fields[p.at] {
			p.option(&rule, w)
		}
		p.at++
	}
	return rule
}

func (p *lineParser) connection(rule *rule) {
	w, ok := p.one("the kind of connection")
	if !ok {
		p.stopped = true
		return
	}
	i := slices.Index(connectionNames[:], w.text)
	if i < 0 {
		p.fail(w.place, "invalid kind of connection %q; one of %s, or an include directive", w.text, strings.Join(connectionNames[:], ", "))
		p.stopped = true // how many fields follow depends on it
		return
	}
	rule.connection = connection(i)
}

// remedies are PostgreSQL's methods that are not supported, with what to use.
var remedies = map[string]string{
	"peer":   "use scram-sha-256, or trust where the mode of the Unix socket (server.unix_socket_mode) lets only the right ones in",
	"ident":  "it believes the client's machine; use scram-sha-256 or cert",
	"gss":    "use scram-sha-256 or cert",
	"sspi":   "use scram-sha-256 or cert",
	"ldap":   "use scram-sha-256 with auth.auth_query or auth.users_file",
	"radius": "use scram-sha-256 with auth.auth_query or auth.users_file",
	"pam":    "use scram-sha-256 with auth.auth_query or auth.users_file",
	"bsd":    "use scram-sha-256 with auth.auth_query or auth.users_file",
	"oauth":  "use scram-sha-256 or cert",
}

func (p *lineParser) method(rule *rule) {
	w, ok := p.one("the method")
	if !ok {
		return
	}
	method, known := auth.ParseMethod(w.text)
	switch remedy := remedies[w.text]; {
	case remedy != "":
		p.fail(w.place, "method %s is not supported: %s", w.text, remedy)
		p.stopped = true // its options mean nothing here, and may be secrets
	case !known:
		p.fail(w.place, "unknown method %q; one of trust, reject, scram-sha-256, md5, password, cert", w.text)
		p.stopped = true
	case method == auth.Cert && rule.connection != hostSSL:
		p.fail(w.place, "method cert is for hostssl lines only: without TLS there is no certificate")
	case method == auth.Cert:
		rule.line.ClientCert = auth.VerifyFull
	}
	rule.line.Method = method
}

// option reads name=value. Its message never holds the value of an option that is
// not known, which may be a secret.
func (p *lineParser) option(rule *rule, w word) {
	name, value, ok := strings.Cut(w.text, "=")
	if !ok {
		p.fail(w.place, "an option is written name=value")
		return
	}
	var err error
	switch name {
	case "map":
		if rule.line.Method != auth.Cert {
			err = fmt.Errorf("option map is for method cert only")
		}
		rule.line.Map = value
	case "clientcert":
		err = rule.clientCert(value)
	case "clientname":
		err = rule.clientName(value)
	default:
		err = fmt.Errorf("unknown option %q; one of map, clientcert, clientname", name)
	}
	if err != nil {
		p.fail(w.place, "%v", err)
	}
}

func (r *rule) clientCert(value string) error {
	switch {
	case r.connection != hostSSL:
		return fmt.Errorf("option clientcert is for hostssl lines only")
	case value == "verify-full":
		r.line.ClientCert = auth.VerifyFull
	case value == "verify-ca" && r.line.Method == auth.Cert:
		return fmt.Errorf("with method cert clientcert can only be verify-full, which it implies")
	case value == "verify-ca":
		r.line.ClientCert = auth.VerifyCA
	default:
		return fmt.Errorf("invalid clientcert %q; verify-ca or verify-full", value)
	}
	return nil
}

func (r *rule) clientName(value string) error {
	switch {
	case r.connection != hostSSL:
		return fmt.Errorf("option clientname is for hostssl lines only")
	case value == "CN", value == "DN":
		r.line.ByDN = value == "DN"
	default:
		return fmt.Errorf("invalid clientname %q; CN or DN", value)
	}
	return nil
}
