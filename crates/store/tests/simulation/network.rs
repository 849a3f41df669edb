//! Carries bytes between gateways and the store: latency, partitions one way or both, lost answers, resets.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate_redis_link::ByteStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::random::Random;
use super::redis::{encode, take_command};
use super::world::{World, lock};

/// The answers that are lost after the command was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LostAnswers {
    #[default]
    None,
    /// The answer to the next command.
    Next,
    /// The answer to the next push.
    NextPush,
}

/// The state of the way between one gateway and the store.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) to_store_blocked: bool,
    pub(crate) from_store_blocked: bool,
    /// Connections are refused.
    pub(crate) refuses: bool,
    pub(crate) lost: LostAnswers,
    /// The number of resets; each ends all connections.
    pub(crate) resets: u64,
    /// Microseconds of one way, at least and at most.
    pub(crate) latency: [u64; 2],
}

/// The ways between all gateways and the store.
pub(crate) struct Network {
    world: Arc<World>,
    paths: Mutex<BTreeMap<u32, watch::Sender<Path>>>,
    random: Mutex<Random>,
}

struct Delayed<T> {
    at: Instant,
    content: T,
}

impl Network {
    pub(crate) fn new(world: Arc<World>, random: Random) -> Self {
        Self {
            world,
            paths: Mutex::default(),
            random: Mutex::new(random),
        }
    }

    /// Adds the way of a gateway.
    pub(crate) fn add(&self, gateway: u32, latency: [u64; 2]) {
        let path = Path {
            to_store_blocked: false,
            from_store_blocked: false,
            refuses: false,
            lost: LostAnswers::None,
            resets: 0,
            latency,
        };
        lock(&self.paths).insert(gateway, watch::Sender::new(path));
    }

    /// Changes the way of a gateway.
    pub(crate) fn change(&self, gateway: u32, change: impl FnOnce(&mut Path)) {
        if let Some(path) = lock(&self.paths).get(&gateway) {
            path.send_modify(change);
        }
    }

    /// Changes the ways of all gateways.
    pub(crate) fn change_all(&self, change: impl Fn(&mut Path)) {
        lock(&self.paths)
            .values()
            .for_each(|path| path.send_modify(&change));
    }

    fn latency(&self, path: &watch::Receiver<Path>) -> Duration {
        let [least, most] = path.borrow().latency;
        Duration::from_micros(lock(&self.random).between(least, most))
    }

    /// Opens a connection of a gateway.
    pub(crate) async fn open(self: &Arc<Self>, gateway: u32) -> io::Result<Box<dyn ByteStream>> {
        let path = lock(&self.paths)
            .get(&gateway)
            .map(watch::Sender::subscribe);
        let Some(mut path) = path else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        sleep(self.latency(&path) * 2).await;
        let passes = |path: &Path| !path.to_store_blocked && !path.from_store_blocked;
        if path.wait_for(passes).await.is_err() || path.borrow().refuses {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (client, server) = tokio::io::duplex(1 << 20);
        let network = Arc::clone(self);
        tokio::spawn(async move { network.serve(gateway, server, path).await });
        Ok(Box::new(client))
    }

    async fn serve(&self, gateway: u32, stream: DuplexStream, path: watch::Receiver<Path>) {
        let resets = path.borrow().resets;
        let (reading, writing) = tokio::io::split(stream);
        let (commands, received) = mpsc::unbounded_channel();
        let (replies, answered) = mpsc::unbounded_channel();
        let mut for_reset = path.clone();
        tokio::select! {
            biased;
            _ = for_reset.wait_for(|path| path.resets != resets) => {}
            () = self.receive(reading, &path, commands) => {}
            () = self.execute(gateway, received, path.clone(), replies) => {}
            () = self.answer(answered, writing, path.clone()) => {}
        }
    }

    async fn receive(
        &self,
        mut reading: ReadHalf<DuplexStream>,
        path: &watch::Receiver<Path>,
        commands: mpsc::UnboundedSender<Delayed<Vec<Vec<u8>>>>,
    ) {
        let mut buffer = Vec::new();
        let mut latest = Instant::now();
        while let Ok(1..) = reading.read_buf(&mut buffer).await {
            // Bytes keep their order.
            latest = latest.max(Instant::now() + self.latency(path));
            while let Some(content) = take_command(&mut buffer) {
                let at = latest;
                let _ = commands.send(Delayed { at, content });
            }
        }
    }

    async fn execute(
        &self,
        gateway: u32,
        mut received: mpsc::UnboundedReceiver<Delayed<Vec<Vec<u8>>>>,
        mut path: watch::Receiver<Path>,
        replies: mpsc::UnboundedSender<Delayed<Vec<u8>>>,
    ) {
        let mut latest = Instant::now();
        while let Some(Delayed { at, content }) = received.recv().await {
            sleep_until(at).await;
            if path.wait_for(|path| !path.to_store_blocked).await.is_err() {
                return;
            }
            let now = self.world.store_nanos() / 1_000;
            let reply = self.world.redis().execute(&content, now);
            let is_push = content.iter().any(|word| word == b"push");
            let name = String::from_utf8_lossy(&content[0]).into_owned();
            let lost = path.borrow().lost;
            let loses = lost == LostAnswers::Next || lost == LostAnswers::NextPush && is_push;
            let mode = content.iter().skip(3).find(|word| {
                matches!(
                    &word[..],
                    b"push" | b"decide" | b"settle" | b"restore" | b"peek" | b"guarded"
                )
            });
            let mode = mode.map_or(String::new(), |word| String::from_utf8_lossy(word).into());
            let mut bytes = Vec::new();
            encode(&reply, &mut bytes);
            let text = bytes.escape_ascii();
            self.world.note(format_args!(
                "g{gateway} {name} {mode} -> {text} lost={loses}"
            ));
            if loses {
                self.change(gateway, |path| path.lost = LostAnswers::None);
                return;
            }
            latest = latest.max(Instant::now() + self.latency(&path));
            let _ = replies.send(Delayed {
                at: latest,
                content: bytes,
            });
        }
    }

    async fn answer(
        &self,
        mut answered: mpsc::UnboundedReceiver<Delayed<Vec<u8>>>,
        mut writing: WriteHalf<DuplexStream>,
        mut path: watch::Receiver<Path>,
    ) {
        while let Some(Delayed { at, content }) = answered.recv().await {
            sleep_until(at).await;
            let passes = path.wait_for(|path| !path.from_store_blocked).await.is_ok();
            if !passes || writing.write_all(&content).await.is_err() {
                return;
            }
        }
    }
}
