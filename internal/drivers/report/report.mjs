// How the JavaScript programs among the drivers tell their results; see the Go package of the same name.
import { isDeepStrictEqual, inspect } from "node:util";
import { readFileSync } from "node:fs";

export const url = process.env.DRIVERS_URL;
export const consoleURL = url.replace(/\/postgres$/, "/pg_kinetic");
export const variant = process.argv[2] ?? "";
const limit = 40_000; // of one scenario, so that one that hangs is named

export function check(got, want) {
	if (!isDeepStrictEqual(got, want)) throw new Error(`got ${inspect(got)}, want ${inspect(want)}`);
}

// rejects awaits a failure with the given SQLSTATE.
export async function rejects(promise, state) {
	try {
		await promise;
	} catch (error) {
		if (error.code === state) return;
		throw new Error(`want SQLSTATE ${state}, got ${error.code}: ${error.message}`);
	}
	throw new Error(`want SQLSTATE ${state}, got no error`);
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// version of installed packages, from their own descriptions.
export function version(...packages) {
	const texts = packages.map((name) => {
		const { version } = JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url)));
		return packages.length === 1 ? version : `${name} ${version}`;
	});
	console.log(`version ${texts.join(", ")}`);
}

export const backends = (pids) => console.log(`backends ${pids.size}`);

// run runs the scenarios, an object of functions by name, in order, and ends the program.
export async function run(scenarios) {
	let status = 0;
	for (const [name, scenario] of Object.entries(scenarios)) {
		let timer;
		const late = new Promise((_, reject) => {
			timer = setTimeout(() => reject(new Error("hangs")), limit);
		});
		try {
			await Promise.race([scenario(), late]);
			console.log(`ok ${name}`);
		} catch (error) {
			status = 1;
			console.log(`FAIL ${name}: ${error?.code ?? ""} ${error?.message ?? error}`.replace(/\s+/g, " "));
		}
		clearTimeout(timer);
	}
	process.exit(status);
}
