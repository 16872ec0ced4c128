//! tokio-postgres: prepared statements for everything, pipelines of futures that are polled together, COPY, notifications.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use futures_util::{stream, SinkExt, StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, GenericClient, NoTls, Notification, SimpleQueryMessage};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const LIMIT: Duration = Duration::from_secs(40); // of one scenario, so that one that hangs is named

async fn connect() -> Outcome<(Client, mpsc::UnboundedReceiver<Notification>)> {
    let config: Config = std::env::var("DRIVERS_URL")?.parse()?;
    let (client, mut connection) = config.connect(NoTls).await?;
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                let _ = sender.send(notification); // nobody listens: not of interest
            }
        }
    });
    Ok((client, receiver))
}

fn check<T: PartialEq + Debug>(got: T, want: T) -> Outcome {
    if got == want {
        return Ok(());
    }
    Err(format!("got {got:?}, want {want:?}").into())
}

async fn expect<T>(client: &impl GenericClient, want: T, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Outcome
where
    T: PartialEq + Debug + for<'a> tokio_postgres::types::FromSql<'a>,
{
    check(client.query_one(sql, values).await?.try_get::<_, T>(0)?, want)
}

async fn fails<T>(state: &str, query: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Outcome {
    match query.await {
        Ok(_) => Err(format!("want SQLSTATE {state}, got no error").into()),
        Err(error) => match error.code() {
            Some(code) => check(code.code(), state),
            None => Err(error.into()),
        },
    }
}

async fn prepare() -> Outcome {
    let (client, _) = connect().await?;
    let a = client.prepare("SELECT $1::text || '/a', pg_backend_pid()").await?;
    let b = client.prepare("SELECT $1::text || '/b', pg_backend_pid()").await?;
    let mut pids = HashSet::new();
    for i in 0..60 {
        for (statement, name) in [(&a, "a"), (&b, "b")] {
            let row = client.query_one(statement, &[&i.to_string()]).await?;
            check(row.try_get::<_, String>(0)?, format!("{i}/{name}"))?;
            pids.insert(row.try_get::<_, i32>(1)?);
        }
        // Prepared for this use, and closed when it is dropped.
        expect(&client, i + 1, "SELECT $1::int + 1", &[&i]).await?;
    }
    println!("backends {}", pids.len());
    Ok(())
}

async fn workers() -> Outcome {
    let work = |n: i32| async move {
        let (client, _) = connect().await?;
        let statement = client.prepare(&format!("SELECT '{n} ' || $1::text")).await?;
        for i in 0..20 {
            let row = client.query_one(&statement, &[&i.to_string()]).await?;
            check(row.try_get::<_, String>(0)?, format!("{n} {i}"))?;
        }
        Ok(())
    };
    try_join_all((0..8).map(work)).await.map(|_| ())
}

async fn error() -> Outcome {
    let (mut client, _) = connect().await?;
    for i in 0..5 {
        fails("22012", client.query("SELECT 1 / $1::int", &[&0])).await?;
        fails("42P01", client.prepare("SELECT $1::int FROM no_such_table")).await?;
        fails("22012", client.batch_execute("SELECT 1; SELECT 1/0; SELECT 2")).await?;
        expect(&client, i, "SELECT $1::int", &[&i]).await?;
    }
    let block = client.transaction().await?;
    fails("22012", block.query("SELECT 1 / $1::int", &[&0])).await?;
    fails("25P02", block.query("SELECT $1::int", &[&1])).await?;
    block.rollback().await?;
    expect(&client, 7, "SELECT $1::int", &[&7]).await
}

async fn transaction() -> Outcome {
    let (mut client, _) = connect().await?;
    for commit in [false, true] {
        let mut block = client.transaction().await?;
        let pid: i32 = block.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
        for id in 1..=5 {
            block.execute("INSERT INTO items VALUES ($1, 'row')", &[&id]).await?;
            expect(&block, pid, "SELECT pg_backend_pid()", &[]).await?;
        }
        let inner = block.savepoint("inner_block").await?;
        fails("23505", inner.execute("INSERT INTO items VALUES ($1, 'again')", &[&1])).await?;
        inner.rollback().await?;
        if commit {
            block.commit().await?;
        } else {
            drop(block); // rolls back, without waiting
        }
        let want: i64 = if commit { 5 } else { 0 };
        expect(&client, want, "SELECT count(*) FROM items WHERE id BETWEEN $1 AND 99", &[&1]).await?;
    }
    Ok(())
}

async fn copy() -> Outcome {
    let (client, _) = connect().await?;
    let lines: Vec<String> = (0..2000).map(|i| format!("{}\tcopied {i}\n", 1000 + i)).collect();
    let sink = client.copy_in("COPY items (id, body) FROM STDIN").await?;
    let mut sink = pin!(sink);
    for line in &lines {
        sink.send(Bytes::copy_from_slice(line.as_bytes())).await?;
    }
    check(sink.finish().await?, 2000)?;
    let rows = client.copy_out("COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT").await?;
    let parts: Vec<Bytes> = rows.try_collect().await?;
    check(parts.concat(), lines.concat().into_bytes())?;
    {
        let given_up = client.copy_in::<_, Bytes>("COPY items (id, body) FROM STDIN").await?;
        let mut given_up = pin!(given_up);
        given_up.send(Bytes::from_static(b"5000\tgiven up\n")).await?;
    } // dropped: the driver sends CopyFail
    expect(&client, 2000_i64, "SELECT count(*) FROM items WHERE id >= $1", &[&1000]).await
}

async fn cancel() -> Outcome {
    let (client, _) = connect().await?;
    let token = client.cancel_token();
    let canceller = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await; // until it hits
            if let Err(error) = token.cancel_query(NoTls).await {
                return error;
            }
        }
    });
    let outcome = fails("57014", client.query("SELECT pg_sleep($1)", &[&30.0_f64])).await;
    canceller.abort();
    outcome?;
    expect(&client, 1, "SELECT $1::int", &[&1]).await
}

async fn types() -> Outcome {
    let (client, _) = connect().await?;
    let when = SystemTime::UNIX_EPOCH + Duration::from_micros(1_709_251_198_123_456);
    let tree = serde_json::json!({"k": [1, "ü"]});
    let name = uuid::Uuid::parse_str("6f8a1f5e-0000-4000-8000-0123456789ab")?;
    let words = vec!["a".to_string(), "b\"\\,".to_string()];
    let octets = vec![0_u8, 1, 255, 92];
    expect(&client, i64::MIN, "SELECT $1::int8", &[&i64::MIN]).await?;
    expect(&client, 0.1_f64, "SELECT $1::float8", &[&0.1_f64]).await?;
    expect(&client, true, "SELECT $1::bool", &[&true]).await?;
    expect(&client, "grün 漢字 🐘".to_string(), "SELECT $1::text", &[&"grün 漢字 🐘"]).await?;
    expect(&client, None::<String>, "SELECT $1::text", &[&None::<String>]).await?;
    expect(&client, octets.clone(), "SELECT $1::bytea", &[&octets]).await?;
    expect(&client, when, "SELECT $1::timestamptz", &[&when]).await?;
    expect(&client, tree.clone(), "SELECT $1::jsonb", &[&tree]).await?;
    expect(&client, name, "SELECT $1::uuid", &[&name]).await?;
    expect(&client, words.clone(), "SELECT $1::text[]", &[&words]).await?;
    // A type of the database's own: the driver looks it up with statements that it keeps.
    client.batch_execute("CREATE TYPE mood AS ENUM ('sad', 'glad')").await?;
    let statement = client.prepare("SELECT $1::mood").await?;
    let kind = statement.params()[0].name().to_string();
    client.batch_execute("DROP TYPE mood").await?;
    check(kind, "mood".to_string())
}

async fn listen() -> Outcome {
    let (client, mut received) = connect().await?;
    let (other, _) = connect().await?;
    client.batch_execute("LISTEN news").await?;
    for i in 0..3 {
        other.execute("SELECT pg_notify($1, $2)", &[&"news", &format!("item {i}")]).await?;
        let Some(notification) = tokio::time::timeout(Duration::from_secs(20), received.recv()).await? else {
            return Err("the connection has ended".into());
        };
        check((notification.channel(), notification.payload()), ("news", format!("item {i}").as_str()))?;
        expect(&client, i, "SELECT $1::int", &[&i]).await?;
    }
    client.batch_execute("UNLISTEN news").await?;
    Ok(())
}

async fn setting() -> Outcome {
    let (client, _) = connect().await?;
    let (other, _) = connect().await?;
    client.batch_execute("SET search_path = tenant; SET TimeZone = 'Asia/Tokyo'").await?;
    for _ in 0..20 {
        for (session, name, zone) in [(&client, "tenant", "Asia/Tokyo"), (&other, "public", "UTC")] {
            expect(session, name.to_string(), "SELECT name FROM place", &[]).await?;
            expect(session, zone.to_string(), "SELECT current_setting($1)", &[&"TimeZone"]).await?;
        }
    }
    let Some(SimpleQueryMessage::Row(row)) = client.simple_query("SHOW search_path").await?.into_iter().find(|m| matches!(m, SimpleQueryMessage::Row(_))) else {
        return Err("SHOW gave no row".into());
    };
    check(row.get(0), Some("tenant"))
}

/// Futures that are polled together go out without waiting for one another, each with its own Sync.
async fn pipeline() -> Outcome {
    let (client, _) = connect().await?;
    let statement = client.prepare("SELECT $1::int / $2::int").await?;
    for _ in 0..10 {
        let pairs: Vec<(i32, i32)> = (0..40).map(|i| (i, i % 10)).collect();
        let answers = join_all(pairs.iter().map(|(a, b)| {
            let (client, statement) = (&client, &statement);
            async move { client.query_one(statement, &[a, b]).await }
        }))
        .await;
        for ((a, b), answer) in pairs.into_iter().zip(answers) {
            match answer {
                Ok(row) => check(row.try_get::<_, i32>(0)?, a / b)?,
                Err(error) => check((error.code().map(|c| c.code()), b), (Some("22012"), 0))?,
            }
        }
    }
    Ok(())
}

async fn scenario(name: &str, run: impl Future<Output = Outcome>) -> bool {
    let failure: Box<dyn Display> = match tokio::time::timeout(LIMIT, run).await {
        Ok(Ok(())) => {
            println!("ok {name}");
            return true;
        }
        Ok(Err(error)) => Box::new(format!("{error} {:?}", error.source().map(|s| s.to_string()))),
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
        scenario("cancel", cancel()).await,
        scenario("types", types()).await,
        scenario("listen", listen()).await,
        scenario("setting", setting()).await,
        scenario("pipeline", pipeline()).await,
    ];
    std::process::exit(i32::from(all.contains(&false)));
}
