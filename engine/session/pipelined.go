package session

import "strings"

// cannotFail says whether setting a parameter to a value that PostgreSQL has
// accepted once can be relied on: its check looks at nothing that changes. A
// parameter with a dot is an extension's or nobody's. A short statement or
// transaction time-out could end the very batch that replaces it, so those count
// only from one second on.
func cannotFail(name, value string) bool {
	switch name {
	case "application_name", "client_encoding", "datestyle", "intervalstyle", "timezone",
		"extra_float_digits", "bytea_output", "search_path", "standard_conforming_strings",
		"client_min_messages", "work_mem", "maintenance_work_mem", "hash_mem_multiplier", "geqo", "jit",
		"plan_cache_mode", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout",
		"default_transaction_isolation", "default_transaction_read_only", "default_transaction_deferrable",
		"row_security", "synchronous_commit", "random_page_cost", "seq_page_cost", "effective_cache_size",
		"max_parallel_workers_per_gather", "join_collapse_limit", "from_collapse_limit", "constraint_exclusion",
		"check_function_bodies", "xmloption", "xmlbinary", "escape_string_warning", "array_nulls",
		"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout":
		return true
	case "statement_timeout", "transaction_timeout":
		return longEnough(value)
	}
	return strings.HasPrefix(name, "enable_") || strings.IndexByte(name, '.') > 0
}

// longEnough says whether a time-out is none, or a second at least: "0", "1500",
// "1500ms", "5s", "10min". In doubt it is not.
func longEnough(value string) bool {
	digits := 0
	for digits < len(value) && value[digits] >= '0' && value[digits] <= '9' {
		digits++
	}
	if digits == 0 || len(value) > 1 && value[0] == '0' {
		return false
	}
	switch unit := strings.TrimLeft(value[digits:], " "); unit {
	case "s", "min", "h", "d":
		return value != "0"
	case "", "ms":
		return value == "0" || digits > 3
	}
	return false
}
