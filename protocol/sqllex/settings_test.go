package sqllex

import "testing"

// A SET that does no more than set a parameter which every server reports is
// told apart from all others; in doubt it is not.
func TestSetOfReportedParameters(t *testing.T) {
	f := func(sql string, want Flags) {
		t.Helper()
		if got := scan(t, sql); got.Flags != want {
			t.Errorf("%q: flags %b, want %b", sql, got.Flags, want)
		}
	}
	f("set application_name = 'x'", SetApplicationName)
	f("SET Application_Name TO x", SetApplicationName)
	f("set session application_name='x'", SetApplicationName)
	f("set/* a */application_name--b\n=/**/'x'", SetApplicationName)
	f("set application_name to 'it''s default'", SetApplicationName)
	f("set application_name to \"default\"", SetApplicationName)
	f("set application_name = default_name;", SetApplicationName)
	f("set application_name to to", SetApplicationName)
	f("set client_encoding to utf8", SetClientEncoding)
	f("set client_encoding = $$latin1$$", SetClientEncoding)
	f("set datestyle = iso, dmy", SetDateStyle)
	f("set DateStyle to 'German'", SetDateStyle)
	f("set intervalstyle = iso_8601", SetIntervalStyle)
	f("SET STANDARD_CONFORMING_STRINGS = off", SetStandardConformingStrings)
	f("set session timezone to -3.5", SetTimeZone)
	f("set timezone to 'utc'; set datestyle to iso; select 1", SetTimeZone|SetDateStyle)
	f("begin; set timezone = utc; rollback", Begin|SetTimeZone|End)
	f("set timezone = utc; set work_mem = '1MB'", SetTimeZone|SetSession)
	f("set timezone = utc; reset timezone", SetTimeZone|SetSession)
	f("set timezone = utc; set timezone to default", SetTimeZone|SetSession)
	f("set timezone = utc\x00", SetTimeZone)

	f("set local timezone = utc", SetLocal)
	f("set timezone to default", SetSession)
	f("set session timezone = DEFAULT", SetSession)
	f("set datestyle = iso, default", SetSession)
	f("set timezone from current", SetSession)
	f("set time zone 'utc'", SetSession)
	f("set session time zone default", SetSession)
	f("set names 'utf8'", SetSession)
	f("set \"timezone\" = 'utc'", SetSession)
	f("set session \"timezone\" = 'utc'", SetSession)
	f("set timezone.x = 'utc'", SetSession)
	f("set timezone /* x */ . x = 'utc'", SetSession)
	f("set session.timezone = 'utc'", SetSession)
	f("set session session = 'utc'", SetSession)
	f("set session local = 'utc'", SetSession)
	f("set session transaction isolation level serializable", SetSession)
	f("set session characteristics as transaction read only", SetSession)
	f("set session", SetSession)
	f("set timezones = 'utc'", SetSession)
	f("set standard_conforming_stringsx = on", SetSession)
	f("set role timezone", SetSession)
	f("reset timezone", SetSession)
	f("alter role r set timezone = 'utc'", 0)
	f("create function f() returns int set timezone = 'utc' language sql as 'select 1'", 0)
	f("update timezone set timezone = 1", 0)
	f("select set_config('timezone', 'utc', false)", SetSession)
	f("set timezone = set_config('a', 'b', false)", SetTimeZone|SetSession)
	// Where the two readings of a text differ, both count.
	f(`set timezone = '\'; listen x; --'`, SetTimeZone|Listen)
	f(`set application_name = '\', default; --'`, SetApplicationName|SetSession)

	if SetReported&SetSession != 0 || AllFlags&SetReported != SetReported || AllFlags&SetSession == 0 {
		t.Errorf("SetReported %b, SetSession %b, AllFlags %b", SetReported, SetSession, AllFlags)
	}
}
