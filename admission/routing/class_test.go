package routing

import (
	"testing"

	"pgkinetic/protocol/sqllex"
)

// TestClassesAreTheLexers keeps the numbers and names of both packages the same: the engine converts.
func TestClassesAreTheLexers(t *testing.T) {
	pairs := map[Class]sqllex.Class{
		ClassDefault: sqllex.ClassDefault, ClassRead: sqllex.ClassRead, ClassWrite: sqllex.ClassWrite,
		ClassMaintenance: sqllex.ClassMaintenance, ClassCopy: sqllex.ClassCopy, ClassTransaction: sqllex.ClassTransaction,
	}
	if len(pairs) != Classes-1 {
		t.Fatalf("%d pairs for %d classes and session", len(pairs), Classes)
	}
	for ours, theirs := range pairs {
		if Class(theirs) != ours || theirs.String() != ours.String() {
			t.Errorf("%v is %d here and %v is %d in sqllex", ours, ours, theirs, theirs)
		}
	}
}

func TestNames(t *testing.T) {
	for c := range Class(Classes) {
		if got, ok := ClassNamed(c.String()); !ok || got != c {
			t.Errorf("ClassNamed(%q) = %v, %v", c.String(), got, ok)
		}
		if !AllClasses.Has(c) || !c.Set().Has(c) || (AllClasses &^ c.Set()).Has(c) {
			t.Errorf("%v is not a member of its sets", c)
		}
	}
	for name, part := range map[string]Parts{
		"database": PartDatabase, "user": PartUser, "application_name": PartApplication, "client_addr": PartAddr,
		"query_class": PartClass,
	} {
		if got, ok := PartNamed(name); !ok || got != part {
			t.Errorf("PartNamed(%q) = %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "Read", "read ", "application"} {
		if _, ok := ClassNamed(name); ok {
			t.Errorf("%q is a class", name)
		}
		if _, ok := PartNamed(name); ok {
			t.Errorf("%q is a part", name)
		}
	}
}
