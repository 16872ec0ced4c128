package hba

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
)

// here is the place of the setting that names the file.
var here = configs.Place{Source: configs.SourceFile, Name: "pg-kinetic.yaml", Line: 3, Col: 13}

// load loads rules from one file.
func load(text string) (*Rules, []configs.Problem) {
	return LoadRules(memory(map[string]string{"pg_hba.conf": text}), "pg_hba.conf", here)
}

func TestValidLines(t *testing.T) {
	f := func(line string) {
		t.Helper()
		if _, problems := load(line + "\n"); problems != nil {
			t.Errorf("%s: %v", line, problems)
		}
	}
	f("local all all trust")
	f(`"local" "all" "all" "trust"`)
	f("host all all all scram-sha-256")
	f("host all all 10.0.0.0/8 md5")
	f("host all all 10.0.0.1 255.255.255.255 password")
	f("host all all 10.0.0.1 0.0.0.0 reject")
	f("host all all ::/0 reject")
	f("host all all ::ffff:10.0.0.0/104 reject")
	f("host all all fe80:: ffc0:: reject")
	f("hostssl all all samehost cert")
	f("hostssl all all samenet cert map=m clientcert=verify-full clientname=DN")
	f(`hostssl all all all cert "map=a b"`)
	f("hostssl all all all scram-sha-256 clientcert=verify-ca,clientname=CN")
	f("hostnossl all all all reject")
	f("hostgssenc all all all reject")
	f("hostnogssenc all all all reject")
	f("host sameuser,replication,\"samerole\",+a all all trust")
	f(`host all "+group","all",sameuser all trust`)
	f(`host /^a(b|c)$ "/^d{1,3}$",x all trust`)
	f("host @,\"@missing\" a@b all trust")
	f("\tlocal  , all,,all ,all trust # comment, \"quoted")
	f("local \\\nall \\\r\nall \\\ntrust")
	f("host all all 1.2.3.4/32 trust \\")
}

// TestInvalidLines: each problem with the place in the line, and what its message
// must hold.
func TestInvalidLines(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		rules, problems := load("# first\n" + text + "\nlocal all all trust\n")
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if rules != nil || !slices.EqualFunc(got, want, func(got, want string) bool {
			place, message, _ := strings.Cut(want, " ")
			return strings.HasPrefix(got, "pg_hba.conf:"+place+": ") && strings.Contains(got, message)
		}) {
			t.Errorf("%s:\n%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	f("hosts all all all trust", `2:1 invalid kind of connection "hosts"`)
	f("  local,host all all trust", "2:9 several values for the kind of connection")
	f("\ufeffhost all all all trust", `2:1 invalid kind of connection "\ufeffhost"`)
	f("local", "2:6 ends before the databases")
	f("local all", "2:10 ends before the users")
	f("local all all", "2:14 ends before the method")
	f("local all all  # trust", "2:23 ends before the method")
	f("host all all", "2:13 ends before the address")
	f("host all all all", "2:17 ends before the method")
	f("host all all 10.0.0.1", "2:22 ends before the mask")
	f("host \\\n all \\\n  all", "4:6 ends before the address")

	f("host samerole,x,samegroup all all trust", "2:6 samerole needs", "2:17 samegroup needs")
	f("host all +a,b,+c all trust", "2:10 +a means the members", "2:15 +c means the members")
	f("host /( /a{1001} all trust", "2:6 missing closing )", "2:9 invalid repeat count")
	f(`host all /\y,/\bx,"/(?=a)",/(a)\1 all trust`, "2:10 invalid escape", "2:14 backspace", "2:19 invalid or unsupported Perl syntax", "2:28 invalid escape")
	f("host all /"+strings.Repeat("x", maxPattern+1)+" all trust", "2:10 longer than 1024 bytes")
	f("host all /\xff all trust", "2:10 invalid UTF-8")

	f("host all all 10.0.0.0/33 trust", "2:14 it is 0 to 32")
	f("host all all ::/129 trust", "2:14 it is 0 to 128")
	f("host all all 10.0.0.0/ trust", "2:14 it is 0 to 32")
	f("host all all 10.0.0.0/08 trust", "2:14 it is 0 to 32")
	f("host all all 10.0.0.0/+8 trust", "2:14 it is 0 to 32")
	f("host all all 10.0.0.0/-1 nonsense", "2:14 it is 0 to 32", "2:26 unknown method")
	f("host all all 10.0.0 trust", "2:14 invalid address")
	f("host all all 010.0.0.0/8 trust", "2:14 invalid address")
	f("host all all fe80::1%eth0/10 trust", "2:14 invalid address")
	f(`host all all "" trust`, "2:14 invalid address")
	f("host all all db.example.com trust", "2:14 host names are not supported")
	f("host all all .example.com trust", "2:14 host names are not supported")
	f(`host all all "all" trust`, "2:14 host names are not supported")
	f("host all all 10.0.0.0 trust", `2:23 "trust" is not a mask`, "2:28 ends before the method")
	f("host all all 10.0.0.0 ffff:: trust", `2:23 "ffff::" is not a mask`)
	f("host all all 10.0.0.0 255.0.255.0 trust", "2:23 one bits followed by zero bits")
	f("host all all 10.0.0.0/8,11.0.0.0/8 trust", "2:25 several values for the address")
	f("host all all 10.0.0.0 255.0.0.0,255.0.0.0 trust", "2:33 several values for the mask")

	for _, method := range []string{"peer", "ident", "gss", "sspi", "ldap", "radius", "pam", "bsd", "oauth"} {
		f("local all all "+method, "2:15 method "+method+" is not supported: ")
	}
	f("local all all Trust", `2:15 unknown method "Trust"`)
	f("local all all trust,md5", "2:21 several values for the method")
	f("local all all cert", "2:15 for hostssl lines only")
	f("host all all all cert", "2:18 for hostssl lines only")
	f("hostnossl all all all cert", "2:23 for hostssl lines only")

	f("local all all trust x", "2:21 written name=value")
	f("local all all trust x=y,clientname", "2:21 unknown option \"x\"", "2:25 written name=value")
	f("hostssl all all all trust map=m", "2:27 for method cert only")
	f("host all all all trust clientcert=verify-ca clientname=CN", "2:24 option clientcert is for hostssl", "2:45 option clientname is for hostssl")
	f("hostssl all all all trust clientcert=1 clientname=dn", `2:27 invalid clientcert "1"`, `2:40 invalid clientname "dn"`)
	f("hostssl all all all cert clientcert=verify-ca", "2:26 can only be verify-full")

	f(`local all "all trust`, "2:11 quotes are not closed")
	f("local a\x00 all trust", "2:8 zero byte")
	f("host samerole +a x reject", "2:6 samerole", "2:15 +a means", "2:18 host names")
}

// TestSecretsOfOtherMethods: a file that was PostgreSQL's may hold secrets, in
// options that mean nothing here; no problem tells one.
func TestSecretsOfOtherMethods(t *testing.T) {
	for _, line := range []string{
		`host all all all ldap ldapserver=x ldapbindpasswd=sesame`,
		`host all all all radius radiusservers=x radiussecrets="a,sesame"`,
		`host all all all scram-sha-256 ldapbindpasswd=sesame`,
		`host all all all scram-sha-256 radiussecrets=sesame,sesame`,
	} {
		_, problems := load(line)
		for _, p := range problems {
			if strings.Contains(p.String(), "sesame") {
				t.Error(p)
			}
		}
		if problems == nil {
			t.Errorf("no problem with %s", line)
		}
	}
}

const decisionRules = `
# who                                        what             # line
local   all          postgres                trust            # 3
local   sameuser     all                     scram-sha-256    # 4
hostssl payroll      /^pay_                  10.0.0.0/8       cert map=staff clientname=DN         # 5
host    payroll      all                     all              reject                                # 6
hostnossl all        all                     192.0.2.0/24     reject                                # 7
hostssl all          all                     192.0.2.0/24     md5 clientcert=verify-ca              # 8
hostgssenc all       all                     198.51.100.0/24  trust                                 # 9
hostnogssenc "all",x all                     198.51.100.0/24  password                              # 10
host    replication  all                     203.0.113.0/24   trust                                 # 11
host    a,b,"C d"    "all",bob,@list         203.0.113.0 255.255.255.0  md5                         # 12
host    /^t[0-9]+$   all                     2001:db8::/32    scram-sha-256                         # 13
host    all          all                     ::ffff:172.16.0.0/108      md5                         # 14
host    local        all                     samehost         trust                                 # 15
host    local        all                     samenet          md5                                   # 16
host    nobody       @empty                  all              trust                                 # 17
host    /^.$         all                     ::/0             password                              # 18
`

// TestDecisions: who is decided by which line, 0 for none.
func TestDecisions(t *testing.T) {
	rules, problems := LoadRules(memory(map[string]string{
		"pg_hba.conf": decisionRules, "list": "carol\n\"dave\" eve,frank", "empty": "# nobody\n",
	}), "pg_hba.conf", here)
	if rules == nil {
		t.Fatal(problems)
	}
	f := func(addr string, tls bool, database, user string, line int, method auth.Method) {
		t.Helper()
		p := auth.Peer{User: user, Database: database, TLS: tls}
		if addr != "" {
			p.Addr = netip.MustParseAddr(addr)
		}
		d, ok := rules.Match(&p)
		if ok != (line != 0) || d.Method != method {
			t.Errorf("%q %v %s %s: %+v, %v; want line %d", addr, tls, database, user, d, ok, line)
		}
		if found := rules.Find(&p); found != nil && found.Place.Line != line {
			t.Errorf("%q %v %s %s: line %v, want %d", addr, tls, database, user, found.Place, line)
		}
	}
	const none = auth.Reject
	f("", false, "x", "postgres", 3, auth.Trust)
	f("", false, "x", "x", 4, auth.SCRAM)
	f("", false, "x", "y", 0, none)
	f("", true, "x", "x", 4, auth.SCRAM) // a Unix socket, whatever runs on it
	f("127.0.0.1", false, "x", "postgres", 0, none)

	f("10.1.2.3", true, "payroll", "pay_1", 5, auth.Cert)
	f("::ffff:10.1.2.3", true, "payroll", "pay_1", 5, auth.Cert)
	f("10.1.2.3", false, "payroll", "pay_1", 6, auth.Reject)
	f("10.1.2.3", true, "payroll", "repay_1", 6, auth.Reject)
	f("11.1.2.3", true, "payroll", "pay_1", 6, auth.Reject)
	f("fd00::1", true, "payroll", "pay_1", 6, auth.Reject)
	f("10.1.2.3", true, "Payroll", "pay_1", 0, none)

	f("192.0.2.1", false, "x", "x", 7, auth.Reject)
	f("192.0.2.1", true, "x", "x", 8, auth.MD5)
	f("192.0.3.0", true, "x", "y", 0, none)

	f("198.51.100.7", true, "all", "y", 10, auth.Password)
	f("198.51.100.7", false, "x", "y", 10, auth.Password)
	f("198.51.100.7", false, "yy", "y", 0, none)

	f("203.0.113.1", false, "replication", "x", 0, none)
	f("203.0.113.1", false, "a", "all", 12, auth.MD5)
	f("203.0.113.1", false, "C d", "bob", 12, auth.MD5)
	f("203.0.113.1", false, "c d", "bob", 0, none)
	f("203.0.113.1", false, "b", "carol", 12, auth.MD5)
	f("203.0.113.1", false, "b", "dave", 12, auth.MD5)
	f("203.0.113.1", false, "b", "frank", 12, auth.MD5)
	f("203.0.113.1", false, "b", "grace", 0, none)
	f("203.0.113.1", false, "b", "@list", 0, none)
	f("203.0.114.1", false, "b", "bob", 0, none)

	f("2001:db8::1", false, "t1", "x", 13, auth.SCRAM)
	f("2001:db8:ffff::1%eth0", false, "t12", "x", 13, auth.SCRAM)
	f("2001:db9::1", false, "t12", "x", 0, none)
	f("2001:db8::1", false, "t1\n", "x", 0, none)
	f("172.16.0.1", false, "x", "y", 14, auth.MD5)
	f("::ffff:172.31.0.1", false, "x", "y", 14, auth.MD5)
	f("172.32.0.1", false, "x", "y", 0, none)

	f("192.168.7.9", false, "local", "x", 15, auth.Trust)
	f("fd00::7:9", false, "local", "x", 15, auth.Trust)
	f("192.168.7.10", false, "local", "x", 16, auth.MD5)
	f("fd00::ffff", false, "local", "x", 16, auth.MD5)
	f("192.168.8.9", false, "local", "x", 0, none)
	f("fd00:0:0:1::", false, "local", "x", 0, none)

	f("192.168.8.9", false, "nobody", "", 0, none)
	f("::1", false, "\n", "x", 18, auth.Password)
	f("192.168.8.9", false, "z", "x", 0, none)

	line := rules.Find(&auth.Peer{User: "pay_1", Database: "payroll", TLS: true, Addr: netip.MustParseAddr("10.1.2.3")})
	if line.Map != "staff" || !line.ByDN || line.ClientCert != auth.VerifyFull || line.Place.String() != "pg_hba.conf:5:1" {
		t.Errorf("%+v", line)
	}
	line = rules.Find(&auth.Peer{Database: "x", TLS: true, Addr: netip.MustParseAddr("192.0.2.1")})
	if line.Map != "" || line.ByDN || line.ClientCert != auth.VerifyCA {
		t.Errorf("%+v", line)
	}
}
