//! An ACME server for tests, RFC 8555: small, but one that believes nobody.
//!
//! Signatures of requests are verified, nonces are used once, and names are proved by really connecting to where the test says that they
//! lead ([`check`]). What it issues is signed by a real authority ([`authority`]). It lives on a thread of its own, so that a test may
//! block. Faults are asked for one by one.

mod authority;
mod check;
mod jws;
mod protocol;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsAcceptor;

use super::ports::listen_blocking;
use authority::Authority;
use protocol::Books;

/// The server; it stops when dropped.
pub struct AcmeServer {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What goes wrong, once.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The next signed request is answered with badNonce.
    BadNonce,
    /// The next order is refused with rateLimited, and a Retry-After of so many seconds.
    RateLimited(u64),
    /// The next order is refused, since the server does not issue for such names.
    Rejected,
}

/// What requests see.
struct Shared {
    address: SocketAddr,
    authority: Authority,
    books: Mutex<Books>,
    faults: Mutex<VecDeque<Fault>>,
    lifetime: Mutex<Duration>,
    /// Where every name leads, for proofs of either kind; proofs wait until it is known.
    lead: watch::Sender<Option<SocketAddr>>,
    /// The key of the one external account that may open accounts; `None`: anybody may.
    external: Option<(String, Vec<u8>)>,
    requests: AtomicUsize,
}

impl AcmeServer {
    /// A server that anybody may open accounts at. Certificates live for 90 days.
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// A server that only the customer `kid` may open accounts at, who has this key.
    pub fn for_customers(kid: &str, key: &[u8]) -> Self {
        Self::start_with(Some((kid.to_owned(), key.to_owned())))
    }

    fn start_with(external: Option<(String, Vec<u8>)>) -> Self {
        let listener = listen_blocking();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::new(Shared {
            address: listener.local_addr().unwrap(),
            authority: Authority::new(),
            books: Mutex::default(),
            faults: Mutex::default(),
            lifetime: Mutex::new(Duration::from_secs(90 * 86_400)),
            lead: watch::Sender::new(None),
            external,
            requests: AtomicUsize::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || serve(listener, shared, stopped)
        });
        Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        self.shared.url("directory")
    }

    /// The certificate that signs its own, and those that it issues, as PEM.
    pub fn ca(&self) -> String {
        self.shared.authority.pem()
    }

    /// Every name leads there from now on.
    pub fn names_lead_to(&self, address: SocketAddr) {
        self.shared.lead.send_replace(Some(address));
    }

    /// Certificates live so long from now on.
    pub fn lifetime(&self, lifetime: Duration) {
        *self.shared.lifetime.lock().unwrap() = lifetime;
    }

    /// Lets this go wrong, after what was asked for before.
    pub fn fault(&self, fault: Fault) {
        self.shared.faults.lock().unwrap().push_back(fault);
    }

    /// Faults that did not come to pass yet.
    pub fn faults_left(&self) -> usize {
        self.shared.faults.lock().unwrap().len()
    }

    /// Orders that were asked for, refused ones too.
    pub fn orders(&self) -> usize {
        self.shared.books().asked
    }

    /// Certificates that were issued.
    pub fn issued(&self) -> usize {
        self.shared.books().issued()
    }

    /// The contacts of every account.
    pub fn accounts(&self) -> Vec<Vec<String>> {
        self.shared.books().contacts()
    }

    /// Forgets every account.
    pub fn forget_accounts(&self) {
        self.shared.books().forget_accounts();
    }

    /// Requests of any kind.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

impl Drop for AcmeServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the ACME server panicked"
            );
        }
    }
}

impl Shared {
    fn url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.address)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// Takes the next fault if it is one of these.
    fn takes_place(&self, is: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        faults.front().is_some_and(is).then(|| faults.pop_front())?
    }
}

fn serve(listener: std::net::TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).unwrap();
        let acceptor = TlsAcceptor::from(shared.authority.server_config());
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    // Who does not believe the certificate leaves here.
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let answer =
                        service_fn(|request| protocol::answer(Arc::clone(&shared), request));
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer)
                        .await;
                });
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped => {}
        }
    });
}
