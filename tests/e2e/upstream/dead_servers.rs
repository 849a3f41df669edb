//! Servers whose machine is gone, so that nothing acknowledges what was sent: the kernel ends their connections.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::SockRef;

use super::*;
use crate::harness::frames::{END_HEADERS, END_STREAM, frame};

/// Duplicates of the sockets that the gateway has connected to this server.
fn sockets_to(server: SocketAddr, gateway: &Gateway) -> Vec<OwnedFd> {
    let id = gateway.id().as_raw();
    let process = pidfd_open(Pid::from_raw(id).unwrap(), PidfdFlags::empty()).unwrap();
    let descriptors = fs::read_dir(format!("/proc/{id}/fd")).unwrap();
    let numbers = descriptors.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // A descriptor may be closed by now.
    let duplicates =
        numbers.filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok());
    let leads_there = |socket: &OwnedFd| {
        let peer = SockRef::from(socket).peer_addr();
        peer.is_ok_and(|peer| peer.as_socket() == Some(server))
    };
    duplicates.filter(leads_there).collect()
}

/// A server that answers each request, and keeps its connections.
async fn answering(spoken: Spoken) -> SocketAddr {
    listening(move |mut stream, _| async move {
        if spoken == Spoken::Http1 {
            while !read_head(&mut stream).await.is_empty() {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                tokio::io::AsyncWriteExt::write_all(&mut stream, answer)
                    .await
                    .unwrap();
            }
            return;
        }
        let mut frames = Frames::accept(stream).await;
        while let Some(stream) = next_head(&mut frames).await {
            let head = frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88]);
            frames.write(&head).await;
        }
    })
    .await
}

#[tokio::test]
async fn the_kernel_ends_connections_to_servers_that_are_gone() {
    // Goal: a server that acknowledges nothing is given up after 90 seconds, or `write` if that is longer, and one that is silent is
    // probed; Linux would try for a quarter of an hour. Method: the options of the gateway's own sockets, over both versions, with a bound
    // on connections and without.
    for spoken in BOTH {
        for (lines, seconds) in [
            ("", 90),
            ("circuit_breaker = { max_connections = 2 }", 90),
            ("timeouts = { write = \"3m\" }", 180),
        ] {
            let server = answering(spoken).await;
            let gateway = before(&[server], &format!("{}\n{lines}", spoken.line())).await;
            assert_eq!(gateway.get("/").await.status, 200);
            let sockets = sockets_to(server, &gateway);
            assert!(!sockets.is_empty(), "{spoken:?} {lines}");
            for socket in sockets {
                let socket = SockRef::from(&socket);
                let expected = Some(Duration::from_secs(seconds));
                assert_eq!(socket.tcp_user_timeout().unwrap(), expected, "{lines}");
                assert!(socket.keepalive().unwrap(), "{lines}");
                let probed = socket.tcp_keepalive_time().unwrap();
                assert_eq!(probed, Duration::from_secs(60), "{lines}");
            }
        }
    }
}
