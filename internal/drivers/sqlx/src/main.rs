//! sqlx at its defaults: named statements in a cache per connection, a pool that tests what it lends, COPY, a listener.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolCopyExt, PgPoolOptions};
use sqlx::types::BigDecimal;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const LIMIT: Duration = Duration::from_secs(40); // of one scenario, so that one that hangs is named

fn options() -> Outcome<PgConnectOptions> {
    Ok(PgConnectOptions::from_str(&std::env::var("DRIVERS_URL")?)?)
}

async fn connect() -> Outcome<PgConnection> {
    Ok(PgConnection::connect_with(&options()?).await?)
}

async fn pool(size: u32) -> Outcome<PgPool> {
    Ok(PgPoolOptions::new().max_connections(size).connect_with(options()?).await?)
}

fn check<T: PartialEq + Debug>(got: T, want: T) -> Outcome {
    if got == want {
        return Ok(());
    }
    Err(format!("got {got:?}, want {want:?}").into())
}

async fn fails<T>(state: &str, query: impl Future<Output = Result<T, sqlx::Error>>) -> Outcome {
    match query.await {
        Ok(_) => Err(format!("want SQLSTATE {state}, got no error").into()),
        Err(error) => match error.as_database_error().and_then(|e| e.code()) {
            Some(code) => check(code.as_ref(), state),
            None => Err(error.into()),
        },
    }
}

/// one asks for one value with one parameter.
macro_rules! one {
    ($connection:expr, $sql:expr, $value:expr) => {
        sqlx::query_scalar($sql).bind($value).fetch_one($connection).await?
    };
}

async fn prepare() -> Outcome {
    let mut session = connect().await?;
    let mut pids = HashSet::new();
    for i in 0..60 {
        for (sql, name) in [("SELECT $1 || '/a', pg_backend_pid()", "a"), ("SELECT $1 || '/b', pg_backend_pid()", "b")] {
            let row = sqlx::query(sql).bind(i.to_string()).fetch_one(&mut session).await?;
            check(row.try_get::<String, _>(0)?, format!("{i}/{name}"))?;
            pids.insert(row.try_get::<i32, _>(1)?);
        }
        let next: i32 = sqlx::query_scalar("SELECT $1 + 1").bind(i).persistent(false).fetch_one(&mut session).await?;
        check(next, i + 1)?;
    }
    // More texts than the cache holds: the oldest are closed.
    for i in 0..150 {
        let text = format!("SELECT {i} + $1");
        let got: i32 = sqlx::query_scalar(AssertSqlSafe(text)).bind(1).fetch_one(&mut session).await?;
        check(got, i + 1)?;
    }
    session.clear_cached_statements().await?;
    let again: String = one!(&mut session, "SELECT $1 || '/a', pg_backend_pid()", "again");
    check(again, "again/a".to_string())?;
    println!("backends {}", pids.len());
    Ok(session.close().await?)
}

async fn workers() -> Outcome {
    let sessions = pool(8).await?;
    let work = |n: i32| {
        let sessions = sessions.clone();
        async move {
            for i in 0..20 {
                let nonce = format!("worker {n} round {i}");
                let got: String = one!(&sessions, "SELECT $1", &nonce);
                check(got, nonce)?;
            }
            Ok(())
        }
    };
    let outcome: Outcome<Vec<()>> = try_join_all((0..8).map(work)).await;
    sessions.close().await;
    outcome.map(|_| ())
}

async fn error() -> Outcome {
    let mut session = connect().await?;
    for i in 0..5 {
        fails("22012", sqlx::query("SELECT 1 / $1::int").bind(0).fetch_one(&mut session)).await?;
        fails("42P01", sqlx::query("SELECT $1::int FROM no_such_table").bind(1).fetch_one(&mut session)).await?;
        let got: i32 = one!(&mut session, "SELECT $1::int", i);
        check(got, i)?;
    }
    let mut block = session.begin().await?;
    fails("22012", sqlx::query("SELECT 1 / $1::int").bind(0).fetch_one(&mut *block)).await?;
    fails("25P02", sqlx::query("SELECT $1::int").bind(1).fetch_one(&mut *block)).await?;
    block.rollback().await?;
    let got: i32 = one!(&mut session, "SELECT $1::int", 7);
    check(got, 7)?;
    Ok(session.close().await?)
}

async fn transaction() -> Outcome {
    let mut session = connect().await?;
    for commit in [false, true] {
        let mut block = session.begin().await?;
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *block).await?;
        for id in 1..=5 {
            sqlx::query("INSERT INTO items VALUES ($1, 'row')").bind(id).execute(&mut *block).await?;
            let again: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *block).await?;
            check(again, pid)?;
        }
        let mut inner = block.begin().await?; // a savepoint
        fails("23505", sqlx::query("INSERT INTO items VALUES ($1, 'again')").bind(1).execute(&mut *inner)).await?;
        inner.rollback().await?;
        if commit {
            block.commit().await?;
        } else {
            drop(block); // rolls back with the next command
        }
        let count: i64 = one!(&mut session, "SELECT count(*) FROM items WHERE id BETWEEN $1 AND 99", 1);
        check(count, if commit { 5 } else { 0 })?;
    }
    Ok(session.close().await?)
}

async fn copy() -> Outcome {
    let sessions = pool(1).await?;
    let lines: String = (0..2000).map(|i| format!("{}\tcopied {i}\n", 1000 + i)).collect();
    let mut input = sessions.copy_in_raw("COPY items (id, body) FROM STDIN").await?;
    input.send(lines.as_bytes()).await?;
    check(input.finish().await?, 2000)?;
    let output = sessions.copy_out_raw("COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT").await?;
    let parts: Vec<_> = output.try_collect().await?;
    check(parts.concat(), lines.into_bytes())?;
    let mut given_up = sessions.copy_in_raw("COPY items (id, body) FROM STDIN").await?;
    given_up.send(b"5000\tgiven up\n".as_slice()).await?;
    given_up.abort("given up").await?;
    let count: i64 = one!(&sessions, "SELECT count(*) FROM items WHERE id >= $1", 1000);
    check(count, 2000)?;
    sessions.close().await;
    Ok(())
}

async fn types() -> Outcome {
    let mut session = connect().await?;
    let tree = serde_json::json!({"k": [1, "ü"]});
    let name = uuid::Uuid::from_str("6f8a1f5e-0000-4000-8000-0123456789ab")?;
    let words = vec!["a".to_string(), "b\"\\,".to_string()];
    let exact = BigDecimal::from_str("12345678901234567890.000000001")?;
    check::<i64>(one!(&mut session, "SELECT $1::int8", i64::MIN), i64::MIN)?;
    check::<f64>(one!(&mut session, "SELECT $1::float8", 0.1_f64), 0.1)?;
    check::<bool>(one!(&mut session, "SELECT $1::bool", true), true)?;
    check::<String>(one!(&mut session, "SELECT $1::text", "grün 漢字 🐘"), "grün 漢字 🐘".to_string())?;
    check::<Option<String>>(one!(&mut session, "SELECT $1::text", None::<String>), None)?;
    check::<Vec<u8>>(one!(&mut session, "SELECT $1::bytea", vec![0_u8, 1, 255, 92]), vec![0, 1, 255, 92])?;
    check::<BigDecimal>(one!(&mut session, "SELECT $1::numeric", exact.clone()), exact)?;
    check::<serde_json::Value>(one!(&mut session, "SELECT $1::jsonb", tree.clone()), tree)?;
    check::<uuid::Uuid>(one!(&mut session, "SELECT $1::uuid", name), name)?;
    check::<Vec<String>>(one!(&mut session, "SELECT $1::text[]", words.clone()), words)?;
    check::<String>(
        one!(&mut session, "SELECT ($1::timestamptz)::text", "2024-02-29 23:59:58.123456+00"),
        "2024-02-29 23:59:58.123456+00".to_string(),
    )?;
    Ok(session.close().await?)
}

async fn listen() -> Outcome {
    let sessions = pool(2).await?;
    let mut listener = PgListener::connect_with(&sessions).await?;
    listener.listen("news").await?;
    for i in 0..3 {
        let want = format!("item {i}");
        sqlx::query("SELECT pg_notify($1, $2)").bind("news").bind(&want).execute(&sessions).await?;
        let notification = tokio::time::timeout(Duration::from_secs(20), listener.recv()).await??;
        check((notification.channel(), notification.payload()), ("news", want.as_str()))?;
    }
    listener.unlisten("news").await?;
    drop(listener);
    sessions.close().await;
    Ok(())
}

async fn setting() -> Outcome {
    let mut session = connect().await?;
    let mut other = connect().await?;
    let mut started = PgConnection::connect_with(&options()?.options([("search_path", "tenant"), ("statement_timeout", "12345ms")])).await?;
    sqlx::raw_sql("SET search_path = tenant; SET TimeZone = 'Asia/Tokyo'").execute(&mut session).await?;
    for _ in 0..20 {
        for (connection, name, zone) in [(&mut session, "tenant", "Asia/Tokyo"), (&mut other, "public", "UTC"), (&mut started, "tenant", "UTC")] {
            let place: String = sqlx::query_scalar("SELECT name FROM place").fetch_one(&mut *connection).await?;
            let got: String = one!(&mut *connection, "SELECT current_setting($1)", "TimeZone");
            check((place.as_str(), got.as_str()), (name, zone))?;
        }
        let timeout: String = sqlx::query_scalar("SHOW statement_timeout").fetch_one(&mut started).await?;
        check(timeout, "12345ms".to_string())?;
    }
    started.close().await?;
    other.close().await?;
    Ok(session.close().await?)
}

async fn scenario(name: &str, run: impl Future<Output = Outcome>) -> bool {
    let failure: Box<dyn Display> = match tokio::time::timeout(LIMIT, run).await {
        Ok(Ok(())) => {
            println!("ok {name}");
            return true;
        }
        Ok(Err(error)) => error,
        Err(_) => Box::new("hangs"),
    };
    println!("FAIL {name}: {}", failure.to_string().split_whitespace().collect::<Vec<_>>().join(" "));
    false
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("version {}", env!("DRIVER_VERSION"));
    let all = [
        scenario("prepare", prepare()).await,
        scenario("workers", workers()).await,
        scenario("error", error()).await,
        scenario("transaction", transaction()).await,
        scenario("copy", copy()).await,
        scenario("types", types()).await,
        scenario("listen", listen()).await,
        scenario("setting", setting()).await,
    ];
    std::process::exit(i32::from(all.contains(&false)));
}
