// node-postgres: pg with named statements and its pool, and pg-cursor, pg-query-stream, pg-copy-streams on top.
import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import copyStreams from "pg-copy-streams";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";
import { backends, check, consoleURL, pause, rejects, run, url, version } from "./report.mjs";

async function connect(more) {
	const client = new pg.Client({ connectionString: url, ...more });
	await client.connect();
	return client;
}

const withClient = (scenario) => async () => {
	const client = await connect();
	try {
		await scenario(client);
	} finally {
		await client.end();
	}
};

async function one(client, text, ...values) {
	const { rows } = await client.query({ text, values, rowMode: "array" });
	check(rows.length, 1);
	return rows[0][0];
}

async function prepare(client) {
	const pids = new Set();
	for (let i = 0; i < 60; i++) {
		for (const name of ["a", "b"]) {
			const { rows } = await client.query({
				name, text: `SELECT $1::text || '/${name}' AS got, pg_backend_pid() AS pid`, values: [String(i)],
			});
			check(rows[0].got, `${i}/${name}`);
			pids.add(rows[0].pid);
		}
		check(await one(client, "SELECT $1::int + 1", i), i + 1); // the unnamed statement
	}
	backends(pids);
}

async function workers() {
	// The same name stands for another text in each of the clients.
	await Promise.all(Array.from({ length: 8 }, (_, n) => withClient(async (client) => {
		for (let i = 0; i < 20; i++) {
			const nonce = `worker ${n} round ${i}`;
			const { rows } = await client.query({ name: "same", text: `SELECT ${n} AS n, $1::text AS nonce`, values: [nonce] });
			check(rows, [{ n, nonce }]);
		}
	})()));
	const pool = new pg.Pool({ connectionString: url, max: 2 });
	const rounds = Array.from({ length: 40 }, (_, i) => pool.query("SELECT $1::int AS i", [i]).then(({ rows }) => check(rows[0].i, i)));
	await Promise.all(rounds);
	await pool.end();
}

async function error(client) {
	for (let i = 0; i < 5; i++) {
		await rejects(client.query({ name: "divide", text: "SELECT 1 / $1::int", values: [0] }), "22012");
		await rejects(client.query({ name: `ghost ${i}`, text: "SELECT $1::int FROM no_such_table", values: [1] }), "42P01");
		await rejects(client.query("SELECT 1; SELECT 1/0; SELECT 2"), "22012");
		check(await one(client, "SELECT $1::int", i), i);
	}
	await client.query("BEGIN");
	await rejects(client.query("SELECT 1 / $1::int", [0]), "22012");
	await rejects(client.query("SELECT $1::int", [1]), "25P02");
	await client.query("ROLLBACK");
	check(await one(client, "SELECT $1::int", 7), 7);
}

async function transaction(client) {
	for (const end of ["ROLLBACK", "COMMIT"]) {
		await client.query("BEGIN");
		const pid = await one(client, "SELECT pg_backend_pid()");
		for (let i = 1; i <= 5; i++) {
			await client.query({ name: "insert", text: "INSERT INTO items VALUES ($1, $2)", values: [i, "row"] });
			check(await one(client, "SELECT pg_backend_pid()"), pid);
		}
		await client.query("SAVEPOINT inner_block");
		await rejects(client.query({ name: "insert", text: "INSERT INTO items VALUES ($1, $2)", values: [1, "again"] }), "23505");
		await client.query("ROLLBACK TO inner_block");
		await client.query(end);
		check(await one(client, "SELECT count(*)::int FROM items WHERE id BETWEEN $1 AND $2", 1, 99), end === "COMMIT" ? 5 : 0);
	}
}

async function copy(client) {
	const lines = Array.from({ length: 2000 }, (_, i) => `${1000 + i}\tcopied ${i}\n`);
	const into = () => client.query(copyStreams.from("COPY items (id, body) FROM STDIN"));
	await pipeline(Readable.from(lines), into());
	let out = "";
	const rows = client.query(copyStreams.to("COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT"));
	for await (const part of rows) out += part;
	check(out, lines.join(""));
	await rejects(pipeline(Readable.from(lines), into()), "23505");
	check(await one(client, "SELECT count(*)::int FROM items WHERE id >= $1", 1000), 2000);
}

// The driver sends a cancel request by itself for none of its time-outs: this one is made of its own parts, as it does for
// Client.cancel, from the process number and the key that the client was told.
async function cancel(client) {
	let ended = false;
	const query = client.query("SELECT pg_sleep($1)", [30]).finally(() => { ended = true; });
	const failed = rejects(query, "57014");
	while (!ended) {
		await pause(100); // until it hits
		const connection = new pg.Connection();
		const closed = new Promise((done) => connection.once("end", done));
		connection.on("error", () => {});
		connection.once("connect", () => connection.cancel(client.processID, client.secretKey));
		connection.connect(Number(process.env.DRIVERS_PORT), process.env.DRIVERS_HOST);
		await Promise.race([closed, pause(5000)]);
	}
	await failed;
	check(await one(client, "SELECT $1::int", 1), 1);
}

async function types(client) {
	const when = new Date("2024-02-29T23:59:58.123Z");
	for (const [type, value, want] of [
		["int4", -5], ["int8", "-9223372036854775808"], ["float8", 0.1], ["bool", true], ["text", "grün 漢字 🐘"], ["text", null],
		["bytea", Buffer.from([0, 1, 255, 92])], ["numeric", "12345678901234567890.000000001"], ["timestamptz", when],
		["uuid", "6f8a1f5e-0000-4000-8000-0123456789ab"], ["jsonb", { k: [1, "ü"] }], ["text[]", ["a", 'b"\\,']],
	]) {
		check(await one(client, `SELECT $1::${type}`, value), want ?? value);
	}
	const binary = await client.query({ text: "SELECT $1::int4 AS n", values: [7], binary: true });
	check(binary.rows, [{ n: 7 }]);
}

async function listen(client) {
	const received = [];
	let wake = () => {};
	client.on("notification", (n) => { received.push([n.channel, n.payload]); wake(); });
	await client.query("LISTEN news");
	const other = await connect();
	for (let i = 0; i < 3; i++) {
		const arrives = new Promise((done) => { wake = done; });
		await other.query("SELECT pg_notify($1, $2)", ["news", `item ${i}`]);
		await Promise.race([arrives, pause(20_000)]);
		check(received.splice(0), [["news", `item ${i}`]]);
		check(await one(client, "SELECT $1::int", i), i);
	}
	await other.end();
	await client.query("UNLISTEN news");
}

async function setting(client) {
	const other = await connect();
	await client.query("SET search_path = tenant; SET TimeZone = 'Asia/Tokyo'");
	for (let i = 0; i < 20; i++) {
		check(await one(client, "SELECT name FROM place"), "tenant");
		check(await one(client, "SELECT current_setting($1)", "TimeZone"), "Asia/Tokyo");
		check(await one(other, "SELECT name FROM place"), "public");
		check(await one(other, "SELECT current_setting($1)", "TimeZone"), "UTC");
	}
	await other.end();
	// What the driver itself sets at startup.
	const started = await connect({ application_name: "drivers", statement_timeout: 12345, options: "-c search_path=tenant" });
	for (let i = 0; i < 10; i++) {
		check(await one(started, "SHOW application_name"), "drivers");
		check(await one(started, "SHOW statement_timeout"), "12345ms");
		check(await one(started, "SELECT name FROM place"), "tenant");
	}
	await started.end();
}

// A cursor outside a block lives until its portal is exhausted or closed: the backend is its own until then.
async function cursor(client) {
	for (let round = 0; round < 5; round++) {
		const rows = client.query(new Cursor("SELECT g FROM generate_series(1, $1::int) g", [500]));
		let total = 0;
		for (;;) {
			const part = await rows.read(50);
			if (part.length === 0) break;
			for (const { g } of part) total += g;
		}
		check(total, 125250);
		const left = client.query(new Cursor("SELECT g FROM generate_series(1, 1000) g"));
		check(await left.read(2), [{ g: 1 }, { g: 2 }]);
		await left.close();
		check(await one(client, "SELECT $1::int", round), round);
	}
}

async function stream(client) {
	for (let round = 0; round < 5; round++) {
		let total = 0;
		const rows = client.query(new QueryStream("SELECT g FROM generate_series(1, $1::int) g", [2000], { batchSize: 100 }));
		for await (const { g } of rows) total += g;
		check(total, 2001000);
		for await (const { g } of client.query(new QueryStream("SELECT g FROM generate_series(1, 1000) g"))) {
			if (g === 3) break; // destroys the stream, which closes the portal
		}
		check(await one(client, "SELECT $1::int", round), round);
	}
}

// login: every method that applies, with TLS and without; a wrong password is told as one.
async function login() {
	const file = (name) => readFileSync(`${process.env.DRIVERS_CERTIFICATES}/${name}`, "utf8");
	const ssl = { ca: file("ca.crt") };
	const shown = { ...ssl, cert: file("client.crt"), key: file("client.key") };
	const password = "secret";
	for (const way of [
		{ user: "by_scram", password }, { user: "by_scram", password, ssl }, { user: "by_scram", password, ssl, enableChannelBinding: true },
		{ user: "by_md5", password }, { user: "by_md5", password, ssl }, { user: "by_password", password, ssl }, { user: "by_cert", ssl: shown },
	]) {
		const client = new pg.Client({ host: process.env.DRIVERS_HOST, port: process.env.DRIVERS_PORT, database: "postgres", ...way });
		await client.connect();
		check(await one(client, "SELECT current_user"), way.user);
		await client.end();
	}
	const guess = new pg.Client({
		host: process.env.DRIVERS_HOST, port: process.env.DRIVERS_PORT, database: "postgres", user: "by_scram", password: "guessed", ssl,
	});
	await rejects(guess.connect(), "28P01");
}

async function console() {
	const pool = new pg.Pool({ connectionString: consoleURL, max: 2 });
	for (let i = 0; i < 3; i++) {
		for (const view of ["POOLS", "CLIENTS", "SERVERS", "LISTS", "BACKPRESSURE", "LIMITS"]) {
			const text = `SHOW ${view}`;
			for (const query of [text, { name: view, text }, { text, queryMode: "extended" }]) {
				check((await pool.query(query)).rows.length > 0, true);
			}
		}
	}
	await rejects(pool.query("SHOW NOTHING"), "42601");
	await pool.end();
}

version("pg", "pg-cursor", "pg-query-stream", "pg-copy-streams");
const scenarios = { prepare, error, transaction, copy, cancel, types, listen, setting, cursor, stream };
const all = Object.entries(scenarios).map(([name, scenario]) => [name, withClient(scenario)]);
await run(Object.fromEntries([...all, ["workers", workers], ["login", login], ["console", console]]));
