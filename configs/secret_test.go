package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planted stands for every secret in these tests; no output may hold it.
const planted = "PL4NTED"

func TestSecretIsNeverShown(t *testing.T) {
	s := Secret(planted)
	db := Database{Name: "a", Password: s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10.3s"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", s, &s, db)
	}
	encoded, err := json.Marshal(db)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(encoded)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", s, "db", db)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", s, "db", db)
	shown := out.String()
	hex := fmt.Sprintf("%x", planted)
	if strings.Contains(shown, planted) || strings.Contains(strings.ToLower(shown), hex) {
		t.Errorf("shown: %s", shown)
	}
	if !strings.Contains(shown, mask) || s.Reveal() != planted || Secret("").String() != "" {
		t.Errorf("mask missing: %s", shown)
	}
}

// Every way to get settings wrong around a secret: no problem may repeat it.
func TestProblemsHoldNoSecret(t *testing.T) {
	f := func(path string, environ, flags []string) {
		t.Helper()
		c, o, problems := Load(path, environ, flags)
		if len(problems) == 0 {
			var out bytes.Buffer
			if err := Print(&out, c, o); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), planted) {
				t.Errorf("printed: %s", out.String())
			}
			if !strings.Contains(out.String(), mask) && !strings.Contains(out.String(), "password_") {
				t.Errorf("no sign of the password: %s", out.String())
			}
		}
		if all := strings.Join(problemLines(problems), "\n"); strings.Contains(all, planted) {
			t.Errorf("told: %s", all)
		}
	}
	file := func(name, text string) { t.Helper(); f(write(t, name, text), nil, nil) }
	entry := "databases:\n- name: a\n  "
	file("v.yaml", entry+"password: "+planted+"\n")
	file("v.yaml", entry+"password: *"+planted+"\n")
	file("v.yaml", entry+"password: &"+planted+" x\n")
	file("v.yaml", entry+"password: !"+planted+" x\n")
	file("v.yaml", entry+"password: \""+planted+"\n")
	file("v.yaml", entry+"password: ["+planted+"]\n")
	file("v.yaml", entry+"password: {a: "+planted+"}\n")
	file("v.yaml", entry+"password: "+planted+": x\n")
	file("v.yaml", entry+"password: '"+planted+strings.Repeat("x", 2000)+"'\n")
	file("v.yaml", entry+"password: \""+planted+"\\0\"\n")
	file("v.yaml", entry+"password: @"+planted+"\n")
	file("v.yaml", entry+"password: "+planted+"\n  password_env: X\n")
	file("v.yaml", entry+"password_env: \"-"+planted+"\"\n")
	file("v.yaml", entry+"hosts: [\"postgres://u:"+planted+"@h/db\"]\n")
	file("v.yaml", entry+"hosts: [\"u:"+planted+"@h:5432\"]\n")
	file("v.yaml", entry+"max_clients: postgres://u:"+planted+"@h/db\n")
	file("v.toml", "[[databases]]\nname='a'\npassword = "+planted+"\n")
	file("v.toml", "[[databases]]\nname='a'\npassword = '"+planted+"\n")
	file("v.toml", "[[databases]]\nname='a'\npassword = ['"+planted+"']\n")
	file("v.toml", "[[databases]]\nname='a'\npassword = '"+planted+"'\n")
	file("v.toml", "[[databases]]\nname='a'\npassword = \"\\q"+planted+"\"\n")
	environ := func(e ...string) { t.Helper(); f("", e, nil) }
	environ(`PG_KINETIC_DATABASES=[{"name":"a","password":"` + planted + `"}]`)
	environ(`PG_KINETIC_DATABASES=[{"name":"a","password":"` + planted)
	environ(`PG_KINETIC_DATABASES=` + planted)
	environ(`PG_KINETIC_PASSWORD=` + planted)
	environ(`PG_KINETIC_DATABASES=[{"name":"a","password_env":"P"}]`, "P="+planted)
	environ(`PG_KINETIC_DATABASES=[{"name":"a","password_env":"PG_KINETIC_P"}]`, "PG_KINETIC_P="+planted)
	environ(`PG_KINETIC_DATABASES=[{"name":"a","password_env":"P"}]`, "P="+planted+strings.Repeat("x", 2000))
	f("", nil, []string{"--databases.0.password=" + planted})
	f("", nil, []string{"--databases.0.password", planted})
}

func TestPasswordSources(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pw")
	f := func(content, want string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, problems := Load(write(t, "f.yaml", "databases:\n- name: a\n  password_file: "+path+"\n"), nil, nil)
		switch {
		case want == "" && len(problems) != 1:
			t.Errorf("%q: %v", content, problems)
		case want != "" && (len(problems) > 0 || c.Databases[0].Password.Reveal() != want):
			t.Errorf("%q: %v", content, problems)
		}
	}
	f(planted, planted)
	f(planted+"\n", planted)
	f(planted+"\r\n", planted)
	f(" "+planted+" \n", " "+planted+" ")
	f("\n", "")
	f("a\x00b", "")
	f(strings.Repeat("x", maxPassword+1), "")
	f(strings.Repeat("x", 64<<10+1), "")
	c, _ := mustLoad(t, write(t, "f.yaml", "databases:\n- name: a\n  password_env: SECRET_HERE\n"), []string{"SECRET_HERE=x=y"}, nil)
	if c.Databases[0].Password.Reveal() != "x=y" {
		t.Error("the variable's value is not the password")
	}
}
