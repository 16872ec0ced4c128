package web

import (
	"io"
	"iter"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"

	"pgkinetic/admin"
	"pgkinetic/admin/view"
)

// lister are the lists under /api/v1/ by their names, which are those of the console's
// views. SHOW CONFIG and SHOW FDS are for who has logged in.
var lister = map[string]func(admin.Views) (columns []view.Column, rows iter.Seq[reflect.Value]){
	"backpressure": list(admin.Views.Backpressure),
	"clients":      sequence(admin.Views.Clients),
	"databases":    list(admin.Views.Databases),
	"errors":       list(admin.Views.Errors),
	"limits":       list(admin.Views.Limits),
	"lists":        list(admin.Views.Lists),
	"mem":          list(admin.Views.Mem),
	"performance":  list(admin.Views.Performance),
	"pinning":      list(admin.Views.Pinning),
	"pools":        list(admin.Views.Pools),
	"prepared":     sequence(admin.Views.Prepared),
	"recovery":     list(admin.Views.Recovery),
	"routes":       list(admin.Views.Routes),
	"servers":      sequence(admin.Views.Servers),
	"sockets":      sequence(admin.Views.Sockets),
	"users":        list(admin.Views.Users),
}

var listNames = slices.Sorted(maps.Keys(lister))

func list[T any](of func(admin.Views) []T) func(admin.Views) ([]view.Column, iter.Seq[reflect.Value]) {
	return sequence(func(v admin.Views) iter.Seq[T] { return slices.Values(of(v)) })
}

func sequence[T any](of func(admin.Views) iter.Seq[T]) func(admin.Views) ([]view.Column, iter.Seq[reflect.Value]) {
	return func(v admin.Views) ([]view.Column, iter.Seq[reflect.Value]) {
		return view.Columns(*new(T)), func(yield func(reflect.Value) bool) {
			var row T // each one in its turn: nobody keeps a row
			at := reflect.ValueOf(&row).Elem()
			for row = range of(v) {
				if !yield(at) {
					return
				}
			}
		}
	}
}

// flushAt is how many bytes of a list wait for each other.
const flushAt = 32 << 10

// list answers with an array that has an object per row; rows are written as they are
// made.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	columns, rows := lister[path.Base(r.URL.Path)](s.Control)
	stream(w, r, textJSON, func(to io.Writer) error {
		b := make([]byte, 0, flushAt+4<<10)
		separator := "[\n"
		for row := range rows {
			b = append(b, separator...)
			b = appendObject(b, columns, row)
			separator = ",\n"
			if len(b) >= flushAt {
				if _, err := to.Write(b); err != nil {
					return err
				}
				b = b[:0]
			}
		}
		if separator == "[\n" {
			b = append(b, '[')
		}
		_, err := to.Write(append(b, "\n]\n"...))
		return err
	})
}

func appendObject(b []byte, columns []view.Column, row reflect.Value) []byte {
	separator := byte('{')
	for _, c := range columns {
		b = append(append(append(b, separator, '"'), c.Name...), `":`...)
		b = c.AppendJSON(b, row)
		separator = ','
	}
	return append(b, '}')
}
