/* libpq: prepared statements, COPY, cancel, notifications, and its pipeline mode. */
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A scenario gives up by a jump to main, with the reason in why. The main thread alone does so; the threads of the workers
 * return theirs. */
static char why[1024];
static jmp_buf given_up;

static void give_up(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(why, sizeof why, format, arguments);
	va_end(arguments);
	for (char *c = why; *c; c++)
		if (*c == '\n')
			*c = ' ';
	longjmp(given_up, 1);
}

static PGconn *connect_pooler(void)
{
	char options[256];
	snprintf(options, sizeof options, "%s?sslmode=disable&connect_timeout=20", getenv("DRIVERS_URL"));
	PGconn *conn = PQconnectdb(options);
	if (PQstatus(conn) != CONNECTION_OK)
		give_up("connect: %s", PQerrorMessage(conn));
	return conn;
}

/* Checks status and SQLSTATE ("" for none) of a result, and clears it. */
static void expect(PGresult *result, ExecStatusType status, const char *state)
{
	char message[256];
	const char *got = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	snprintf(message, sizeof message, "want %s %s, got %s %s: %s", PQresStatus(status), state, PQresStatus(PQresultStatus(result)),
	         got ? got : "", PQresultErrorMessage(result));
	int right = PQresultStatus(result) == status && strcmp(got ? got : "", state) == 0;
	PQclear(result);
	if (!right)
		give_up("%s", message);
}

static void run(PGconn *conn, const char *sql) { expect(PQexec(conn, sql), PGRES_COMMAND_OK, ""); }

/* Checks the first value of a result, and clears it. */
static void value(PGresult *result, const char *want)
{
	char got[256];
	if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) < 1)
		expect(result, PGRES_TUPLES_OK, "");
	snprintf(got, sizeof got, "%s", PQgetvalue(result, 0, 0));
	PQclear(result);
	if (strcmp(got, want) != 0)
		give_up("got \"%s\", want \"%s\"", got, want);
}

static PGresult *with_text(PGconn *conn, const char *sql, const char *text)
{
	return PQexecParams(conn, sql, 1, NULL, &text, NULL, NULL, 0);
}

static PGresult *with_number(PGconn *conn, const char *sql, int number)
{
	char text[16];
	snprintf(text, sizeof text, "%d", number);
	return with_text(conn, sql, text);
}

static void prepare(PGconn *conn)
{
	int pids[64], known = 0;
	expect(PQprepare(conn, "a", "SELECT $1::text || '/a', pg_backend_pid()", 0, NULL), PGRES_COMMAND_OK, "");
	expect(PQprepare(conn, "b", "SELECT $1::text || '/b', pg_backend_pid()", 0, NULL), PGRES_COMMAND_OK, "");
	for (int i = 0; i < 60; i++) {
		for (int s = 0; s < 2; s++) {
			char number[16], want[32];
			const char *values[1] = {number};
			snprintf(number, sizeof number, "%d", i);
			snprintf(want, sizeof want, "%d/%c", i, 'a' + s);
			PGresult *result = PQexecPrepared(conn, s ? "b" : "a", 1, values, NULL, NULL, 0);
			int pid = PQresultStatus(result) == PGRES_TUPLES_OK ? atoi(PQgetvalue(result, 0, 1)) : 0, k = 0;
			value(result, want);
			while (k < known && pids[k] != pid)
				k++;
			if (k == known && known < 64)
				pids[known++] = pid;
		}
	}
	/* The unnamed statement of one round trip, used in the next. */
	for (int i = 0; i < 10; i++) {
		const char *values[1] = {"unnamed"};
		expect(PQprepare(conn, "", "SELECT $1::text", 0, NULL), PGRES_COMMAND_OK, "");
		value(PQexecPrepared(conn, "", 1, values, NULL, NULL, 0), "unnamed");
	}
	PGresult *described = PQdescribePrepared(conn, "b");
	int columns = PQnfields(described), parameters = PQnparams(described);
	expect(described, PGRES_COMMAND_OK, "");
	if (columns != 2 || parameters != 1)
		give_up("described as %d columns, %d parameters", columns, parameters);
	run(conn, "DEALLOCATE a");
	const char *values[1] = {"1"};
	expect(PQexecPrepared(conn, "a", 1, values, NULL, NULL, 0), PGRES_FATAL_ERROR, "26000");
	value(PQexecPrepared(conn, "b", 1, values, NULL, NULL, 0), "1/b");
	printf("backends %d\n", known);
}

static void *worker(void *argument)
{
	static const char *const text[] = {"SELECT 'even ' || $1::text", "SELECT 'odd ' || $1::text"};
	static char reasons[8][256];
	int number = *(int *)argument;
	char *reason = reasons[number], options[256];
	snprintf(options, sizeof options, "%s?sslmode=disable&connect_timeout=20", getenv("DRIVERS_URL"));
	PGconn *conn = PQconnectdb(options);
	/* The same name stands for two texts. */
	PGresult *result = PQprepare(conn, "same", text[number % 2], 0, NULL);
	int right = PQresultStatus(result) == PGRES_COMMAND_OK;
	for (int i = 0; right && i < 20; i++) {
		char nonce[64], want[80];
		const char *values[1] = {nonce};
		snprintf(nonce, sizeof nonce, "worker %d round %d", number, i);
		snprintf(want, sizeof want, "%s %s", number % 2 ? "odd" : "even", nonce);
		PQclear(result);
		result = PQexecPrepared(conn, "same", 1, values, NULL, NULL, 0);
		right = PQresultStatus(result) == PGRES_TUPLES_OK && strcmp(PQgetvalue(result, 0, 0), want) == 0;
	}
	if (!right)
		snprintf(reason, sizeof reasons[0], "worker %d: %s%s", number, PQerrorMessage(conn), PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	PQfinish(conn);
	return right ? NULL : reason;
}

static void workers(PGconn *conn)
{
	pthread_t threads[8];
	int numbers[8];
	void *reason = NULL;
	(void)conn;
	for (int n = 0; n < 8; n++) {
		numbers[n] = n;
		if (pthread_create(&threads[n], NULL, worker, &numbers[n]) != 0)
			abort();
	}
	for (int n = 0; n < 8; n++) {
		void *returned;
		pthread_join(threads[n], &returned);
		reason = reason ? reason : returned;
	}
	if (reason)
		give_up("%s", (char *)reason);
}

static void error(PGconn *conn)
{
	for (int i = 0; i < 5; i++) {
		expect(with_number(conn, "SELECT 1 / $1::int", 0), PGRES_FATAL_ERROR, "22012");
		expect(PQprepare(conn, "ghost", "SELECT $1::int FROM no_such_table", 0, NULL), PGRES_FATAL_ERROR, "42P01");
		expect(PQexecPrepared(conn, "ghost", 0, NULL, NULL, NULL, 0), PGRES_FATAL_ERROR, "26000");
		value(with_number(conn, "SELECT $1::int", 7), "7");
	}
	run(conn, "BEGIN");
	expect(with_number(conn, "SELECT 1 / $1::int", 0), PGRES_FATAL_ERROR, "22012");
	expect(with_number(conn, "SELECT $1::int", 1), PGRES_FATAL_ERROR, "25P02");
	if (PQtransactionStatus(conn) != PQTRANS_INERROR)
		give_up("the block has not failed");
	run(conn, "ROLLBACK");
	value(with_number(conn, "SELECT $1::int", 7), "7");
}

static void transaction(PGconn *conn)
{
	for (int commit = 0; commit < 2; commit++) {
		char pid[32];
		run(conn, "BEGIN");
		PGresult *result = PQexec(conn, "SELECT pg_backend_pid()");
		snprintf(pid, sizeof pid, "%s", PQgetvalue(result, 0, 0));
		PQclear(result);
		for (int i = 1; i <= 5; i++) {
			expect(with_number(conn, "INSERT INTO items VALUES ($1, 'row')", i), PGRES_COMMAND_OK, "");
			value(PQexec(conn, "SELECT pg_backend_pid()"), pid);
		}
		run(conn, "SAVEPOINT inner_block");
		expect(with_number(conn, "INSERT INTO items VALUES ($1, 'again')", 1), PGRES_FATAL_ERROR, "23505");
		run(conn, "ROLLBACK TO inner_block");
		run(conn, commit ? "COMMIT" : "ROLLBACK");
		value(with_number(conn, "SELECT count(*) FROM items WHERE id BETWEEN $1 AND 99", 1), commit ? "5" : "0");
	}
}

static void copy_in(PGconn *conn, int first, const char *failure)
{
	expect(PQexec(conn, "COPY items (id, body) FROM STDIN"), PGRES_COPY_IN, "");
	for (int i = 0; i < 2000; i++) {
		char line[64];
		int length = snprintf(line, sizeof line, "%d\tcopied %d\n", first + i, i);
		if (PQputCopyData(conn, line, length) != 1)
			give_up("PQputCopyData: %s", PQerrorMessage(conn));
	}
	if (PQputCopyEnd(conn, failure) != 1)
		give_up("PQputCopyEnd: %s", PQerrorMessage(conn));
}

static void last(PGconn *conn)
{
	PGresult *result = PQgetResult(conn);
	if (result)
		expect(result, PGRES_EMPTY_QUERY, "");
}

static void copy(PGconn *conn)
{
	copy_in(conn, 1000, NULL);
	expect(PQgetResult(conn), PGRES_COMMAND_OK, "");
	last(conn);
	expect(PQexec(conn, "COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT"), PGRES_COPY_OUT, "");
	int lines = 0, length;
	char *line, want[64];
	while ((length = PQgetCopyData(conn, &line, 0)) > 0) {
		snprintf(want, sizeof want, "%d\tcopied %d\n", 1000 + lines, lines);
		if (strcmp(line, want) != 0)
			give_up("line %d is \"%s\"", lines, line);
		PQfreemem(line);
		lines++;
	}
	expect(PQgetResult(conn), PGRES_COMMAND_OK, "");
	last(conn);
	if (lines != 2000)
		give_up("%d lines came out", lines);
	copy_in(conn, 1000, NULL);
	expect(PQgetResult(conn), PGRES_FATAL_ERROR, "23505");
	last(conn);
	copy_in(conn, 5000, "given up");
	expect(PQgetResult(conn), PGRES_FATAL_ERROR, "57014");
	last(conn);
	value(with_number(conn, "SELECT count(*) FROM items WHERE id >= $1", 1000), "2000");
}

/* Waits for bytes; tells whether there are any within the milliseconds. */
static int readable(PGconn *conn, int milliseconds)
{
	struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
	return poll(&fd, 1, milliseconds) > 0;
}

static void cancel(PGconn *conn)
{
	char complaint[256];
	if (!PQsendQuery(conn, "SELECT pg_sleep(30)"))
		give_up("PQsendQuery: %s", PQerrorMessage(conn));
	PGcancel *key = PQgetCancel(conn);
	while (!readable(conn, 100)) /* until it hits */
		if (!PQcancel(key, complaint, sizeof complaint))
			give_up("PQcancel: %s", complaint);
	PQfreeCancel(key);
	expect(PQgetResult(conn), PGRES_FATAL_ERROR, "57014");
	last(conn);
	value(with_number(conn, "SELECT $1::int", 1), "1");
}

static void types(PGconn *conn)
{
	static const struct { const char *sql, *text; } all[] = {
		{"SELECT $1::int8", "-9223372036854775808"}, {"SELECT $1::float8", "0.1"}, {"SELECT $1::bool", "t"},
		{"SELECT $1::text", "grün 漢字 🐘"}, {"SELECT $1::bytea", "\\x0001ff5c"},
		{"SELECT $1::numeric", "12345678901234567890.000000001"}, {"SELECT $1::uuid", "6f8a1f5e-0000-4000-8000-0123456789ab"},
		{"SELECT $1::timestamptz", "2024-02-29 23:59:58.123456+00"}, {"SELECT $1::jsonb", "{\"k\": [1, \"ü\"]}"},
		{"SELECT $1::text[]", "{a,\"b\\\"\\\\,\"}"},
	};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		value(with_text(conn, all[i].sql, all[i].text), all[i].text);
	PGresult *result = with_text(conn, "SELECT $1::text", NULL);
	int null = PQntuples(result) == 1 && PQgetisnull(result, 0, 0);
	expect(result, PGRES_TUPLES_OK, "");
	/* Parameters and answers in binary. */
	const unsigned char number[4] = {0, 0, 1, 2};
	const char *values[1] = {(const char *)number};
	const Oid int4[1] = {23};
	const int lengths[1] = {4}, formats[1] = {1};
	result = PQexecParams(conn, "SELECT $1 + 1", 1, int4, values, lengths, formats, 1);
	int binary = PQntuples(result) == 1 && memcmp(PQgetvalue(result, 0, 0), "\0\0\1\3", 4) == 0;
	expect(result, PGRES_TUPLES_OK, "");
	if (!null || !binary)
		give_up("NULL %d, binary %d", null, binary);
}

static void listen_notify(PGconn *conn)
{
	run(conn, "LISTEN news");
	PGconn *other = connect_pooler();
	for (int i = 0; i < 3; i++) {
		char want[32], sql[64];
		PGnotify *notify;
		snprintf(want, sizeof want, "item %d", i);
		snprintf(sql, sizeof sql, "NOTIFY news, '%s'", want);
		run(other, sql);
		while (!(notify = PQnotifies(conn))) {
			if (!readable(conn, 20000))
				give_up("no notification");
			if (!PQconsumeInput(conn))
				give_up("PQconsumeInput: %s", PQerrorMessage(conn));
		}
		if (strcmp(notify->relname, "news") != 0 || strcmp(notify->extra, want) != 0)
			give_up("got %s: %s", notify->relname, notify->extra);
		PQfreemem(notify);
		value(with_number(conn, "SELECT $1::int", i), i == 0 ? "0" : i == 1 ? "1" : "2");
	}
	PQfinish(other);
	run(conn, "UNLISTEN news");
}

static void setting(PGconn *conn)
{
	PGconn *other = connect_pooler();
	run(conn, "SET search_path = tenant");
	run(conn, "SET TimeZone = 'Asia/Tokyo'");
	for (int i = 0; i < 20; i++) {
		value(PQexec(conn, "SELECT name FROM place"), "tenant");
		value(with_text(conn, "SELECT current_setting($1)", "TimeZone"), "Asia/Tokyo");
		if (strcmp(PQparameterStatus(conn, "TimeZone"), "Asia/Tokyo") != 0)
			give_up("TimeZone reported as %s", PQparameterStatus(conn, "TimeZone"));
		value(PQexec(other, "SELECT name FROM place"), "public");
		value(with_text(other, "SELECT current_setting($1)", "TimeZone"), "UTC");
	}
	PQfinish(other);
}

static void sync_point(PGconn *conn)
{
	expect(PQgetResult(conn), PGRES_PIPELINE_SYNC, "");
}

/* Three groups in one go: the first whole, the second fails in its middle, the third is whole again. */
static void pipeline(PGconn *conn)
{
	for (int round = 0; round < 10; round++) {
		char name[16];
		const char *values[1] = {"3"}, *zero[1] = {"0"};
		snprintf(name, sizeof name, "p%d", round);
		if (!PQenterPipelineMode(conn))
			give_up("no pipeline mode: %s", PQerrorMessage(conn));
		int sent = PQsendPrepare(conn, name, "SELECT 12 / $1::int", 0, NULL);
		for (int i = 0; i < 20; i++)
			sent = sent && PQsendQueryPrepared(conn, name, 1, values, NULL, NULL, 0);
		sent = sent && PQpipelineSync(conn);
		sent = sent && PQsendQueryParams(conn, "INSERT INTO items VALUES (700, 'pipeline')", 0, NULL, NULL, NULL, NULL, 0);
		sent = sent && PQsendQueryPrepared(conn, name, 1, zero, NULL, NULL, 0);
		sent = sent && PQsendQueryPrepared(conn, name, 1, values, NULL, NULL, 0) && PQpipelineSync(conn);
		sent = sent && PQsendQueryParams(conn, "SELECT count(*) FROM items WHERE id = 700", 0, NULL, NULL, NULL, NULL, 0);
		sent = sent && PQsendQueryPrepared(conn, name, 1, values, NULL, NULL, 0) && PQpipelineSync(conn);
		if (!sent)
			give_up("sending: %s", PQerrorMessage(conn));
		expect(PQgetResult(conn), PGRES_COMMAND_OK, "");
		last(conn);
		for (int i = 0; i < 20; i++) {
			value(PQgetResult(conn), "4");
			last(conn);
		}
		sync_point(conn);
		expect(PQgetResult(conn), PGRES_COMMAND_OK, "");
		last(conn);
		expect(PQgetResult(conn), PGRES_FATAL_ERROR, "22012");
		last(conn);
		expect(PQgetResult(conn), PGRES_PIPELINE_ABORTED, "");
		last(conn);
		sync_point(conn);
		value(PQgetResult(conn), "0");
		last(conn);
		value(PQgetResult(conn), "4");
		last(conn);
		sync_point(conn);
		if (!PQexitPipelineMode(conn))
			give_up("leaving the pipeline: %s", PQerrorMessage(conn));
	}
}

static const struct { const char *name; void (*run)(PGconn *); } scenarios[] = {
	{"prepare", prepare}, {"workers", workers}, {"error", error}, {"transaction", transaction}, {"copy", copy}, {"cancel", cancel},
	{"types", types}, {"listen", listen_notify}, {"setting", setting}, {"pipeline", pipeline},
};

int main(void)
{
	volatile int status = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("version %d.%d\n", PQlibVersion() / 10000, PQlibVersion() % 10000);
	for (volatile size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
		PGconn *volatile conn = NULL;
		if (setjmp(given_up) == 0) {
			conn = connect_pooler();
			scenarios[i].run(conn);
			printf("ok %s\n", scenarios[i].name);
		} else {
			status = 1;
			printf("FAIL %s: %s\n", scenarios[i].name, why);
		}
		PQfinish(conn);
	}
	return status;
}
