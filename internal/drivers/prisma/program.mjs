// Prisma's client over its adapter for node-postgres: models, raw queries, interactive transactions.
import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "./generated/client.js";
import { backends, check, run, url, version } from "./report.mjs";

const connect = (more) => new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 1, ...more }) });

const withClient = (scenario) => async () => {
	const prisma = connect();
	try {
		await scenario(prisma);
	} finally {
		await prisma.$disconnect();
	}
};

// fails awaits a failure with Prisma's code, or, of a raw query, with the SQLSTATE in its text.
async function fails(promise, code) {
	try {
		await promise;
	} catch (error) {
		if (error.code === code || `${error.message} ${JSON.stringify(error.meta ?? {})}`.includes(code)) return;
		throw error;
	}
	throw new Error(`want ${code}, got no error`);
}

async function prepare(prisma) {
	const pids = new Set();
	for (let i = 0; i < 60; i++) {
		const [{ got, pid }] = await prisma.$queryRaw`SELECT ${String(i)}::text || '/a' AS got, pg_backend_pid() AS pid`;
		check(got, `${i}/a`);
		pids.add(pid);
		check(await prisma.items.count({ where: { id: { gt: i } } }), 0);
	}
	backends(pids);
}

async function workers() {
	const prisma = connect({ max: 8 });
	await Promise.all(Array.from({ length: 8 }, async (_, n) => {
		for (let i = 0; i < 20; i++) {
			check(await prisma.$queryRaw`SELECT ${n}::int AS n, ${`round ${i}`}::text AS round`, [{ n, round: `round ${i}` }]);
			await prisma.items.upsert({ where: { id: 2000 + n }, create: { id: 2000 + n, body: `${i}` }, update: { body: `${i}` } });
			check((await prisma.items.findUnique({ where: { id: 2000 + n } })).body, `${i}`);
		}
	}));
	await prisma.items.deleteMany({ where: { id: { gte: 2000 } } });
	await prisma.$disconnect();
}

async function error(prisma) {
	for (let i = 0; i < 5; i++) {
		await fails(prisma.$queryRaw`SELECT 1 / ${0}::int`, "22012");
		await fails(prisma.$queryRaw`SELECT ${1}::int FROM no_such_table`, "42P01");
		check(await prisma.$queryRaw`SELECT ${i}::int AS i`, [{ i }]);
	}
}

async function transaction(prisma) {
	for (const want of [0, 5]) {
		await prisma.$transaction(async (block) => {
			const [{ pid }] = await block.$queryRaw`SELECT pg_backend_pid() AS pid`;
			for (let id = 1; id <= 5; id++) {
				await block.items.create({ data: { id, body: "row" } });
				check(await block.$queryRaw`SELECT pg_backend_pid() AS pid`, [{ pid }]);
			}
			if (want === 0) throw new Error("roll back");
		}, { isolationLevel: "RepeatableRead", maxWait: 20_000, timeout: 20_000 }).catch((failure) => { if (failure.message !== "roll back") throw failure; });
		check(await prisma.items.count({ where: { id: { lt: 100 } } }), want);
	}
	// A batch of operations is one transaction.
	await fails(prisma.$transaction([prisma.items.create({ data: { id: 50 } }), prisma.items.create({ data: { id: 1 } })]), "P2002");
	check(await prisma.items.findUnique({ where: { id: 50 } }), null);
}

async function types(prisma) {
	const when = new Date("2024-02-29T23:59:58.123Z");
	const [row] = await prisma.$queryRaw`SELECT ${-5}::int4 AS i, ${-9223372036854775808n}::int8 AS l, ${0.1}::float8 AS f, ${true}::bool AS b,
		${"grün 漢字 🐘"}::text AS t, ${null}::text AS n, ${Buffer.from([0, 1, 255, 92])}::bytea AS o, ${when}::timestamptz AS w,
		${"12345678901234567890.000000001"}::numeric AS d, ${"6f8a1f5e-0000-4000-8000-0123456789ab"}::uuid AS u, ${{ k: [1, "ü"] }}::jsonb AS j,
		${["a", 'b"\\,']}::text[] AS a`;
	check({ ...row, o: [...row.o], d: row.d.toFixed() }, {
		i: -5, l: -9223372036854775808n, f: 0.1, b: true, t: "grün 漢字 🐘", n: null, o: [0, 1, 255, 92], w: when,
		d: "12345678901234567890.000000001", u: "6f8a1f5e-0000-4000-8000-0123456789ab", j: { k: [1, "ü"] }, a: ["a", 'b"\\,'],
	});
}

async function setting(prisma) {
	const other = connect();
	const started = connect({ options: "-c search_path=tenant" });
	await prisma.$executeRaw`SET search_path = tenant`;
	await prisma.$executeRaw`SET TimeZone = 'Asia/Tokyo'`;
	for (let i = 0; i < 20; i++) {
		for (const [session, name, zone] of [[prisma, "tenant", "Asia/Tokyo"], [other, "public", "UTC"], [started, "tenant", "UTC"]]) {
			check(await session.$queryRaw`SELECT name, current_setting(${"TimeZone"}) AS zone FROM place`, [{ name, zone }]);
		}
	}
	await other.$disconnect();
	await started.$disconnect();
}

version("@prisma/client", "@prisma/adapter-pg");
const scenarios = { prepare, error, transaction, types, setting };
const all = Object.entries(scenarios).map(([name, scenario]) => [name, withClient(scenario)]);
await run(Object.fromEntries([...all, ["workers", workers]]));
