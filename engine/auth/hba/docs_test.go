package hba

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// blocks are the fenced texts of the page for users that are labelled so.
func blocks(t *testing.T, label string) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/hba.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile("(?s)\n```"+label+"\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		all = append(all, m[1])
	}
	if all == nil {
		t.Fatalf("the page shows no %s", label)
	}
	return all
}

// TestPageForUsers: what it shows is accepted or refused as it says; the files that
// it mentions are there.
func TestPageForUsers(t *testing.T) {
	for _, text := range blocks(t, "pg_hba") {
		files := map[string]string{"pg_hba.conf": text, "billing_users": "ann bob", "hba.d/1.conf": "local x all reject"}
		if _, problems := LoadRules(memory(files), "pg_hba.conf", here); problems != nil {
			t.Errorf("%v in\n%s", problems, text)
		}
	}
	for _, text := range blocks(t, "pg_ident") {
		maps, problems := LoadMaps(memory(map[string]string{"pg_ident.conf": text}), "pg_ident.conf", here)
		if maps == nil || !maps.Allows("staff", "bob@example.com", "bob") || !maps.Allows("staff", "Alice A.", "alice") {
			t.Errorf("%v in\n%s", problems, text)
		}
	}
	for _, text := range blocks(t, "pg_hba refused") {
		for line := range strings.Lines(text) {
			if _, problems := load(line); len(problems) != 1 {
				t.Errorf("%s: %v", line, problems)
			}
		}
	}
}
