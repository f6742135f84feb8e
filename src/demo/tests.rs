//! The story as the index sees it, and the whole demonstration over TCP.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::config::{LogConfig, LogFormat, LogLevel};
use crate::index::{ClientLocality, Index, SelectPolicy, Touched, ViewKey, select};
use crate::model::ServiceName;
use crate::publish::StatusBoard;

/// Where the demonstration writes in tests.
#[derive(Clone, Debug, Default)]
struct Paper {
    text: Arc<Mutex<String>>,
    written: Arc<Notify>,
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text
            .lock()
            .push_str(std::str::from_utf8(bytes).expect("text"));
        self.written.notify_one();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    async fn wait_for(&self, what: &str) {
        let waiting = async {
            while !self.text.lock().contains(what) {
                self.written.notified().await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .is_err()
        {
            panic!("no {what:?} in:\n{}", self.text.lock());
        }
    }
}

/// Whatever port is free.
const ANY: ListenAddr = ListenAddr::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));

fn config(addr: ListenAddr, metrics_addr: Option<ListenAddr>) -> DemoConfig {
    DemoConfig {
        addr: Some(addr),
        metrics_addr,
        xds_addr: metrics_addr,
        log: LogConfig {
            level: LogLevel::Warn,
            format: LogFormat::Plain,
        },
    }
}

fn endpoints(index: &Index, service: &str) -> usize {
    let snapshot = index.snapshot(&ServiceName::new("shop", service));
    assert!(snapshot.facts.is_some(), "{service}");
    let client = ClientLocality::default();
    let key = ViewKey::new(&snapshot, 80, None, &client);
    select(&snapshot, &key, &SelectPolicy::default())
        .endpoints
        .len()
}

#[test]
fn the_story_may_be_told_again_and_again() {
    let mut world = World::new(StatusBoard::default()).expect("manifests");
    let mut index = Index::new(world::HOME.into());
    let mut touched = Touched::default();
    for change in world.open().expect("opens") {
        index.apply(change, &mut touched);
    }
    assert_eq!(endpoints(&index, "web-federated"), 6);
    assert_eq!(endpoints(&index, "api-east"), 1);
    for _ in 0..3 {
        let mut seen = Vec::new();
        for step in STEPS {
            for change in world.act(step).expect(step.says) {
                index.apply(change, &mut touched);
            }
            seen.push(endpoints(&index, "web-federated"));
        }
        assert_eq!(seen, [6, 7, 7, 6, 7, 6, 6, 6, 7, 5, 7, 6, 6, 6]);
        assert_eq!(endpoints(&index, "web-west"), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_printed_reached_the_clients() {
    let pace = Pace {
        step: Duration::from_millis(1),
        quiet: Duration::from_millis(300),
    };
    let paper = Paper::default();
    let stop = {
        let paper = paper.clone();
        async move {
            paper.wait_for("was linked again").await;
            "enough"
        }
    };
    tell(
        config(ANY, Some(ANY)),
        "tributary",
        pace,
        paper.clone(),
        stop,
    )
    .await
    .expect("ends well");
    let text = paper.text.lock().clone();
    for line in [
        "  tributary endpoints web-federated.shop --addr 127.0.0.1:",
        "  curl http://127.0.0.1:",
        r#"  export GRPC_XDS_BOOTSTRAP_CONFIG='{"xds_servers":[{"server_uri":"127.0.0.1:"#,
        "first answer to node home-a: web-west has 2 endpoints (west 2), after ",
        "first answer to node home-b: web-federated has 6 endpoints (east 2, home 2, west 2), after ",
        "west  web-2 started, not ready yet → nothing new for the 3 streams\n",
        "west  web-2 became ready → 1 update to 3 streams, ",
        "home  web-1 is not ready → 1 update to 2 streams, ",
        " after the slice changed; web-federated: 6 endpoints\n",
        " after the link was gone; web-federated: 5 endpoints\n",
        "demo  stopped; 3 streams got ",
    ] {
        assert!(text.contains(line), "no {line:?} in:\n{text}");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_one_clear_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let addr = taken.local_addr().expect("address");
    let told = tell(
        config(ListenAddr::Address(addr), None),
        "tributary",
        PACE,
        Paper::default(),
        std::future::pending(),
    )
    .await;
    let error = format!("{:#}", told.expect_err("fails"));
    let beginning = format!(
        "cannot start; to take free ports: --addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0 --xds-addr 127.0.0.1:0: cannot listen on {addr}"
    );
    assert!(error.starts_with(&beginning), "{error}");
}

/// A reader that has gone, as `head` does.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_stops_when_nobody_reads() {
    let told = tell(
        config(ANY, None),
        "tributary",
        PACE,
        Gone,
        std::future::pending(),
    )
    .await;
    let error = told.expect_err("fails");
    let error: &std::io::Error = error.downcast_ref().expect("the writer's error");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}
