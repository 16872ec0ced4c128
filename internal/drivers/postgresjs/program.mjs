// postgres.js, with named statements (its default) and without: pipelines by itself, sends its queries without waiting.
import { Readable } from "node:stream";
import { pipeline as pump } from "node:stream/promises";
import postgres from "postgres";
import { backends, check, consoleURL, pause, rejects, run, url, variant, version } from "./report.mjs";

const connect = (more) => postgres(url, { max: 1, prepare: variant === "prepare=true", onnotice: () => {}, ...more });

const withSession = (scenario) => async () => {
	const sql = connect();
	try {
		await scenario(sql);
	} finally {
		await sql.end({ timeout: 5 });
	}
};

async function prepare(sql) {
	const pids = new Set();
	for (let i = 0; i < 60; i++) {
		const [a] = await sql`SELECT ${String(i)}::text || '/a' AS got, pg_backend_pid() AS pid`;
		const [b] = await sql`SELECT ${String(i)}::text || '/b' AS got, pg_backend_pid() AS pid`;
		check([a.got, b.got], [`${i}/a`, `${i}/b`]);
		pids.add(a.pid).add(b.pid);
		check((await sql.unsafe("SELECT $1::int + 1 AS n", [i], { prepare: true }))[0].n, i + 1);
	}
	backends(pids);
}

async function workers() {
	const sql = connect({ max: 8 });
	await Promise.all(Array.from({ length: 8 }, async (_, n) => {
		for (let i = 0; i < 20; i++) {
			const nonce = `worker ${n} round ${i}`;
			check([...await sql`SELECT ${n}::int AS n, ${nonce}::text AS nonce`], [{ n, nonce }]);
		}
	}));
	await sql.end({ timeout: 5 });
}

async function error(sql) {
	for (let i = 0; i < 5; i++) {
		await rejects(sql`SELECT 1 / ${0}::int`, "22012");
		await rejects(sql`SELECT ${1}::int FROM no_such_table`, "42P01");
		check((await sql`SELECT ${i}::int AS i`)[0].i, i);
	}
	await rejects(sql.begin(async (block) => { // fails with the first failure in it, caught or not
		await rejects(block`SELECT 1 / ${0}::int`, "22012");
		await rejects(block`SELECT ${1}::int`, "25P02");
	}), "22012");
	check((await sql`SELECT ${7}::int AS i`)[0].i, 7);
}

async function transaction(sql) {
	for (const want of [0, 5]) {
		await sql.begin(async (block) => {
			const [{ pid }] = await block`SELECT pg_backend_pid() AS pid`;
			for (let i = 1; i <= 5; i++) {
				await block`INSERT INTO items VALUES (${i}, 'row')`;
				check((await block`SELECT pg_backend_pid() AS pid`)[0].pid, pid);
			}
			await rejects(block.savepoint((inner) => inner`INSERT INTO items VALUES (${1}, 'again')`), "23505");
			if (want === 0) throw new Error("roll back");
		}).catch((failure) => { if (failure.message !== "roll back") throw failure; });
		check((await sql`SELECT count(*)::int AS n FROM items WHERE id BETWEEN ${1} AND ${99}`)[0].n, want);
	}
}

async function copy(sql) {
	const lines = Array.from({ length: 2000 }, (_, i) => `${1000 + i}\tcopied ${i}\n`);
	await pump(Readable.from(lines), await sql`COPY items (id, body) FROM STDIN`.writable());
	// Less than its stream holds at once: with more the driver may leave its socket paused at the end.
	let out = "";
	for await (const part of await sql`COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id LIMIT 500) TO STDOUT`.readable()) out += part;
	check(out, lines.slice(0, 500).join(""));
	check((await sql`SELECT count(*)::int AS n FROM items WHERE id >= ${1000}`)[0].n, 2000);
}

async function cancel(sql) {
	let ended = false;
	const query = sql`SELECT pg_sleep(${30})`.execute();
	const failed = rejects(query, "57014").finally(() => { ended = true; });
	while (!ended) {
		await pause(200); // until it hits
		if (!ended) await query.cancel();
	}
	await failed;
	check((await sql`SELECT ${1}::int AS i`)[0].i, 1);
}

async function types(sql) {
	const when = new Date("2024-02-29T23:59:58.123Z");
	check([...await sql`SELECT ${-5}::int4 AS v`], [{ v: -5 }]);
	check([...await sql`SELECT ${"-9223372036854775808"}::int8 AS v`], [{ v: "-9223372036854775808" }]);
	check([...await sql`SELECT ${0.1}::float8 AS v`], [{ v: 0.1 }]);
	check([...await sql`SELECT ${true}::bool AS v`], [{ v: true }]);
	check([...await sql`SELECT ${"grün 漢字 🐘"}::text AS v`], [{ v: "grün 漢字 🐘" }]);
	check([...await sql`SELECT ${null}::text AS v`], [{ v: null }]);
	check(Buffer.from((await sql`SELECT ${Buffer.from([0, 1, 255, 92])}::bytea AS v`)[0].v), Buffer.from([0, 1, 255, 92]));
	check([...await sql`SELECT ${"12345678901234567890.000000001"}::numeric AS v`], [{ v: "12345678901234567890.000000001" }]);
	check([...await sql`SELECT ${when}::timestamptz AS v`], [{ v: when }]);
	check([...await sql`SELECT ${sql.json({ k: [1, "ü"] })}::jsonb AS v`], [{ v: { k: [1, "ü"] } }]);
	check([...await sql`SELECT ${["a", 'b"\\,']}::text[] AS v`], [{ v: ["a", 'b"\\,'] }]);
}

async function listen(sql) {
	const received = [];
	let wake = () => {};
	const { unlisten } = await sql.listen("news", (payload) => { received.push(payload); wake(); });
	for (let i = 0; i < 3; i++) {
		const arrives = new Promise((done) => { wake = done; });
		await sql.notify("news", `item ${i}`);
		await Promise.race([arrives, pause(20_000)]);
		check(received.splice(0), [`item ${i}`]);
	}
	await unlisten();
}

async function setting(sql) {
	const other = connect();
	const started = connect({ connection: { application_name: "drivers", search_path: "tenant", TimeZone: "Asia/Tokyo" } });
	await sql`SET search_path = tenant`;
	await sql`SET TimeZone = 'Asia/Tokyo'`;
	for (let i = 0; i < 20; i++) {
		for (const [session, name, zone] of [[sql, "tenant", "Asia/Tokyo"], [other, "public", "UTC"], [started, "tenant", "Asia/Tokyo"]]) {
			check((await session`SELECT name FROM place`)[0].name, name);
			check((await session`SELECT current_setting(${"TimeZone"}) AS v`)[0].v, zone);
		}
	}
	await other.end({ timeout: 5 });
	await started.end({ timeout: 5 });
}

// Queries that are not awaited go out together, each with its own Sync.
async function pipeline(sql) {
	for (let round = 0; round < 5; round++) {
		const answers = await Promise.allSettled(Array.from({ length: 40 }, (_, i) => sql`SELECT ${i}::int / ${i % 10}::int AS v`));
		answers.forEach((answer, i) => {
			if (i % 10 === 0) check(answer.reason.code, "22012");
			else check(answer.value[0].v, Math.trunc(i / (i % 10)));
		});
	}
}

async function cursor(sql) {
	for (let round = 0; round < 5; round++) {
		let total = 0;
		for await (const rows of sql`SELECT g FROM generate_series(1, ${500}::int) g`.cursor(50)) {
			for (const { g } of rows) total += g;
		}
		check(total, 125250);
		await sql`SELECT g FROM generate_series(1, 1000) g`.cursor(2, () => sql.CLOSE);
		check((await sql`SELECT ${round}::int AS i`)[0].i, round);
	}
}

// Types of the database's own are looked up unless that is switched off: a console has none.
async function console() {
	const sql = postgres(consoleURL, { max: 2, prepare: variant === "prepare=true", onnotice: () => {}, fetch_types: false });
	for (let i = 0; i < 3; i++) {
		for (const view of ["POOLS", "CLIENTS", "SERVERS", "LISTS", "BACKPRESSURE", "LIMITS"]) {
			check((await sql.unsafe(`SHOW ${view}`)).length > 0, true);
		}
		await sql.begin(async (transaction) => check((await transaction`SHOW POOLS`).length > 0, true));
	}
	await rejects(sql`SHOW NOTHING`, "42601");
	await sql.end({ timeout: 5 });
}

version("postgres");
const scenarios = { prepare, error, transaction, copy, cancel, types, listen, setting, pipeline, cursor };
const all = Object.entries(scenarios).map(([name, scenario]) => [name, withSession(scenario)]);
await run(Object.fromEntries([...all, ["workers", workers], ["console", console]]));
