import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyManager;

/** pgjdbc, with named statements from the first use, from the fifth (its default) or never; batches and fetch sizes. */
public class Program {
	interface Scenario {
		void run(Connection connection) throws Exception;
	}

	static String variant;

	static Connection connect() throws SQLException {
		return connectTo("postgres");
	}

	static Connection connectTo(String database) throws SQLException {
		return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("DRIVERS_HOST") + ":" + System.getenv("DRIVERS_PORT")
			+ "/" + database + "?user=postgres&sslmode=disable&" + variant);
	}

	/** Views and a refusal on the console of the same port. */
	static void console(Connection unused) throws Exception {
		try (Connection connection = connectTo("pg_kinetic")) {
			for (int i = 0; i < 7; i++) {
				for (String view : new String[] {"POOLS", "CLIENTS", "SERVERS", "LISTS", "BACKPRESSURE", "LIMITS"}) {
					try (PreparedStatement statement = connection.prepareStatement("SHOW " + view); ResultSet rows = statement.executeQuery()) {
						check(rows.next(), true);
					}
				}
			}
			connection.setAutoCommit(false);
			connection.createStatement().execute("SHOW STATE");
			connection.commit();
			fails("42601", () -> connection.createStatement().execute("SHOW NOTHING"));
			connection.rollback();
		}
	}

	/** Every method that applies, with TLS and without; a wrong password is told as one. */
	static void login(Connection unused) throws Exception {
		String in = System.getenv("DRIVERS_CERTIFICATES");
		String secure = "&sslmode=verify-full&sslrootcert=" + in + "/ca.crt", clear = "&sslmode=disable", secret = "&password=secret";
		String[][] ways = {
			{"by_scram", secret + clear}, {"by_scram", secret + secure}, {"by_scram", secret + secure + "&channelBinding=require"},
			{"by_md5", secret + clear}, {"by_md5", secret + secure}, {"by_password", secret + secure},
			{"by_cert", secure + "&sslcert=" + in + "/client.crt&sslkey=" + in + "/client.pk8"},
		};
		String address = "jdbc:postgresql://" + System.getenv("DRIVERS_HOST") + ":" + System.getenv("DRIVERS_PORT") + "/postgres?user=";
		for (String[] way : ways) {
			try (Connection connection = DriverManager.getConnection(address + way[0] + way[1] + "&" + variant)) {
				check(one(connection, "SELECT current_user"), way[0]);
			}
		}
		fails("28P01", () -> DriverManager.getConnection(address + "by_scram&password=guessed" + secure));
	}

	static void check(Object got, Object want) {
		if (!want.equals(got)) {
			throw new AssertionError("got " + got + ", want " + want);
		}
	}

	static Object one(Connection connection, String sql, Object... values) throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			for (int i = 0; i < values.length; i++) {
				statement.setObject(i + 1, values[i]);
			}
			try (ResultSet rows = statement.executeQuery()) {
				check(rows.next(), true);
				return rows.getObject(1);
			}
		}
	}

	static void run(Connection connection, String sql) throws SQLException {
		try (Statement statement = connection.createStatement()) {
			statement.execute(sql);
		}
	}

	interface Failing {
		void run() throws SQLException;
	}

	static void fails(String state, Failing body) throws SQLException {
		try {
			body.run();
		} catch (SQLException failure) {
			check(failure.getSQLState(), state);
			return;
		}
		throw new AssertionError("want SQLSTATE " + state + ", got no error");
	}

	static void prepare(Connection connection) throws Exception {
		Set<Object> pids = new HashSet<>();
		try (PreparedStatement a = connection.prepareStatement("SELECT ? || '/a', pg_backend_pid()");
			PreparedStatement b = connection.prepareStatement("SELECT ? || '/b', pg_backend_pid()")) {
			for (int i = 0; i < 60; i++) {
				for (PreparedStatement statement : Arrays.asList(a, b)) {
					statement.setString(1, Integer.toString(i));
					try (ResultSet rows = statement.executeQuery()) {
						check(rows.next(), true);
						check(rows.getString(1), i + (statement == a ? "/a" : "/b"));
						pids.add(rows.getInt(2));
					}
				}
				check(one(connection, "SELECT ?::int + 1", i), i + 1);
			}
		}
		// More texts than the driver's cache holds: it closes the named statements of the oldest.
		for (int i = 0; i < 300; i++) {
			check(one(connection, "SELECT " + i + " + ?::int", 1), i + 1);
		}
		System.out.println("backends " + pids.size());
	}

	static void workers(Connection ignored) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(8);
		Future<?>[] all = new Future<?>[8];
		for (int n = 0; n < 8; n++) {
			int number = n;
			all[n] = pool.submit(() -> {
				try (Connection connection = connect()) {
					for (int i = 0; i < 20; i++) {
						String nonce = "worker " + number + " round " + i;
						check(one(connection, "SELECT ?::text", nonce), nonce);
						check(one(connection, "SELECT " + number * 1000 + " + ?::int", i), number * 1000 + i);
					}
				}
				return null;
			});
		}
		for (Future<?> one : all) {
			one.get(30, TimeUnit.SECONDS);
		}
		pool.shutdown();
	}

	static void error(Connection connection) throws Exception {
		for (int i = 0; i < 8; i++) {
			fails("22012", () -> one(connection, "SELECT 1 / ?::int", 0));
			fails("42P01", () -> one(connection, "SELECT ?::int FROM no_such_table", 1));
			check(one(connection, "SELECT ?::int", i), i);
		}
		connection.setAutoCommit(false);
		fails("22012", () -> one(connection, "SELECT 1 / ?::int", 0));
		fails("25P02", () -> one(connection, "SELECT ?::int", 1));
		connection.rollback();
		check(one(connection, "SELECT ?::int", 7), 7);
		connection.commit();
		connection.setAutoCommit(true);
	}

	static void transaction(Connection connection) throws Exception {
		for (long want : new long[] {0, 5}) {
			connection.setAutoCommit(false);
			Object pid = one(connection, "SELECT pg_backend_pid()");
			for (int i = 1; i <= 5; i++) {
				try (PreparedStatement insert = connection.prepareStatement("INSERT INTO items VALUES (?, ?)")) {
					insert.setInt(1, i);
					insert.setString(2, "row");
					check(insert.executeUpdate(), 1);
				}
				check(one(connection, "SELECT pg_backend_pid()"), pid);
			}
			Savepoint savepoint = connection.setSavepoint();
			fails("23505", () -> run(connection, "INSERT INTO items VALUES (1, 'again')"));
			connection.rollback(savepoint);
			if (want == 0) {
				connection.rollback();
			} else {
				connection.commit();
			}
			connection.setAutoCommit(true);
			check(one(connection, "SELECT count(*) FROM items WHERE id BETWEEN ? AND ?", 1, 99), want);
		}
	}

	static void copy(Connection connection) throws Exception {
		CopyManager manager = connection.unwrap(PGConnection.class).getCopyAPI();
		StringBuilder text = new StringBuilder();
		for (int i = 0; i < 2000; i++) {
			text.append(1000 + i).append("\tcopied ").append(i).append('\n');
		}
		check(manager.copyIn("COPY items (id, body) FROM STDIN", new StringReader(text.toString())), 2000L);
		StringWriter out = new StringWriter();
		check(manager.copyOut("COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT", out), 2000L);
		check(out.toString(), text.toString());
		fails("23505", () -> {
			try {
				manager.copyIn("COPY items (id, body) FROM STDIN", new StringReader(text.toString()));
			} catch (java.io.IOException failure) {
				throw new SQLException(failure);
			}
		});
		check(one(connection, "SELECT count(*) FROM items WHERE id >= ?", 1000), 2000L);
	}

	static void cancel(Connection connection) throws Exception {
		try (Statement slow = connection.createStatement()) {
			slow.setQueryTimeout(1); // the driver's own clock, which sends a cancel request
			fails("57014", () -> slow.execute("SELECT pg_sleep(30)"));
		}
		try (Statement slow = connection.createStatement()) {
			AtomicBoolean ended = new AtomicBoolean();
			Thread canceller = new Thread(() -> {
				while (!ended.get()) { // until it hits
					try {
						Thread.sleep(100);
						slow.cancel();
					} catch (SQLException | InterruptedException failure) {
						throw new IllegalStateException(failure);
					}
				}
			});
			canceller.start();
			fails("57014", () -> slow.execute("SELECT pg_sleep(30)"));
			ended.set(true);
			canceller.join();
		}
		check(one(connection, "SELECT ?::int", 1), 1);
	}

	static void types(Connection connection) throws Exception {
		OffsetDateTime when = OffsetDateTime.of(2024, 2, 29, 23, 59, 58, 123456000, ZoneOffset.UTC);
		UUID uuid = UUID.fromString("6f8a1f5e-0000-4000-8000-0123456789ab");
		for (int round = 0; round < 6; round++) { // from the fifth on in binary
			check(one(connection, "SELECT ?::int8", Long.MIN_VALUE), Long.MIN_VALUE);
			check(one(connection, "SELECT ?::float8", 0.1), 0.1);
			check(one(connection, "SELECT ?::bool", true), true);
			check(one(connection, "SELECT ?::text", "grün 漢字 🐘"), "grün 漢字 🐘");
			check(one(connection, "SELECT ?::numeric", new BigDecimal("12345678901234567890.000000001")), new BigDecimal("12345678901234567890.000000001"));
			check(one(connection, "SELECT ?::uuid", uuid), uuid);
			check(Arrays.toString((byte[]) one(connection, "SELECT ?::bytea", (Object) new byte[] {0, 1, -1, 92})), "[0, 1, -1, 92]");
			check(one(connection, "SELECT (?::jsonb)::text", "{\"k\": [1, \"ü\"]}"), "{\"k\": [1, \"ü\"]}");
			try (PreparedStatement statement = connection.prepareStatement("SELECT ?::timestamptz, ?::text[], ?::text")) {
				statement.setObject(1, when);
				statement.setArray(2, connection.createArrayOf("text", new String[] {"a", "b\"\\,"}));
				statement.setNull(3, Types.VARCHAR);
				try (ResultSet rows = statement.executeQuery()) {
					check(rows.next(), true);
					check(rows.getObject(1, OffsetDateTime.class).isEqual(when), true);
					check(Arrays.toString((Object[]) rows.getArray(2).getArray()), "[a, b\"\\,]");
					check(rows.getString(3) == null, true);
				}
			}
		}
	}

	static void listen(Connection connection) throws Exception {
		run(connection, "LISTEN news");
		try (Connection other = connect()) {
			for (int i = 0; i < 3; i++) {
				one(other, "SELECT pg_notify(?, ?)::text", "news", "item " + i);
				PGNotification[] received = connection.unwrap(PGConnection.class).getNotifications(20_000);
				check(received.length, 1);
				check(received[0].getName() + ": " + received[0].getParameter(), "news: item " + i);
				check(one(connection, "SELECT ?::int", i), i);
			}
		}
		run(connection, "UNLISTEN news");
	}

	static void setting(Connection connection) throws Exception {
		try (Connection other = connect()) {
			connection.setSchema("tenant");
			run(connection, "SET TimeZone = 'Asia/Tokyo'");
			// What an application's pool sets: a session in which nothing may be written.
			connection.setReadOnly(true);
			for (int i = 0; i < 20; i++) {
				check(one(connection, "SELECT name FROM place"), "tenant");
				check(one(connection, "SELECT current_setting(?)", "TimeZone"), "Asia/Tokyo");
				check(one(other, "SELECT name FROM place"), "public");
				check(one(other, "SELECT current_setting(?)", "TimeZone"), System.getProperty("user.timezone"));
			}
		}
		connection.setReadOnly(false);
		connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
		for (int i = 0; i < 10; i++) {
			check(one(connection, "SHOW transaction_isolation"), "repeatable read");
		}
	}

	static void batch(Connection connection) throws Exception {
		for (int round = 0; round < 5; round++) {
			try (PreparedStatement insert = connection.prepareStatement("INSERT INTO items VALUES (?, ?)")) {
				for (int i = 0; i < 300; i++) {
					insert.setInt(1, 10_000 + round * 300 + i);
					insert.setString(2, "batch");
					insert.addBatch();
				}
				check(Arrays.stream(insert.executeBatch()).sum(), 300);
				connection.setAutoCommit(false);
				for (int id : new int[] {20_000 + round, 10_000}) { // the second is there
					insert.setInt(1, id);
					insert.setString(2, "batch");
					insert.addBatch();
				}
				try {
					insert.executeBatch();
					throw new AssertionError("no error in the batch");
				} catch (BatchUpdateException failure) {
					check(failure.getSQLState(), "23505");
				}
				connection.rollback();
				connection.setAutoCommit(true);
			}
			check(one(connection, "SELECT count(*) FROM items WHERE id >= ?", 10_000), (round + 1) * 300L);
			try (Statement mixed = connection.createStatement()) {
				mixed.addBatch("CREATE TABLE batched(a int)");
				mixed.addBatch("INSERT INTO batched SELECT generate_series(1, 10)");
				mixed.addBatch("DROP TABLE batched");
				check(Arrays.toString(mixed.executeBatch()), "[0, 10, 0]");
			}
		}
	}

	static void cursor(Connection connection) throws Exception {
		connection.setAutoCommit(false); // a fetch size works in a block only
		for (int round = 0; round < 6; round++) {
			try (PreparedStatement statement = connection.prepareStatement("SELECT g FROM generate_series(1, ?) g")) {
				statement.setFetchSize(50);
				statement.setInt(1, 500);
				long total = 0;
				try (ResultSet rows = statement.executeQuery()) {
					while (rows.next()) {
						total += rows.getInt(1);
					}
				}
				check(total, 125250L);
			}
			connection.commit();
		}
		connection.setAutoCommit(true);
	}

	public static void main(String[] arguments) throws Exception {
		variant = arguments[0];
		System.setProperty("user.timezone", "UTC");
		java.util.TimeZone.setDefault(null);
		System.out.println("version " + org.postgresql.util.DriverInfo.DRIVER_VERSION);
		Map<String, Scenario> scenarios = new LinkedHashMap<>();
		scenarios.put("prepare", Program::prepare);
		scenarios.put("workers", Program::workers);
		scenarios.put("error", Program::error);
		scenarios.put("transaction", Program::transaction);
		scenarios.put("copy", Program::copy);
		scenarios.put("cancel", Program::cancel);
		scenarios.put("types", Program::types);
		scenarios.put("listen", Program::listen);
		scenarios.put("setting", Program::setting);
		scenarios.put("batch", Program::batch);
		scenarios.put("cursor", Program::cursor);
		scenarios.put("login", Program::login);
		scenarios.put("console", Program::console);
		int status = 0;
		for (Map.Entry<String, Scenario> entry : scenarios.entrySet()) {
			try (Connection connection = connect()) {
				entry.getValue().run(connection);
				System.out.println("ok " + entry.getKey());
			} catch (Throwable failure) {
				status = 1;
				System.out.println("FAIL " + entry.getKey() + ": " + failure.toString().replaceAll("\\s+", " "));
			}
		}
		System.exit(status);
	}
}
