//! Exchanges lines between two processes of this machine, some with a descriptor: a listening socket, or memory.
//!
//! The descriptor travels as ancillary data (`SCM_RIGHTS`, unix(7)) beside the bytes of its line. A receiver may get a line in
//! pieces, or several at once; the kernel keeps descriptors in the order of their bytes, so the n-th is of the n-th line that
//! has one.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use sluicegate_base::bounds;

/// One end of the connection.
pub(super) struct UpgradeChannel {
    stream: UnixStream,
    read: VecDeque<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl UpgradeChannel {
    /// Wraps `stream`, with a timeout of `patience` for each line in either direction.
    pub(super) fn over(stream: UnixStream, patience: Duration) -> io::Result<Self> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self {
            stream,
            read: VecDeque::new(),
            descriptors: VecDeque::new(),
        })
    }

    /// Sends a line.
    pub(super) fn send_line(&self, line: &str) -> io::Result<()> {
        self.send(line, &[])
    }

    /// Sends a line with a descriptor.
    pub(super) fn send_with_descriptor(&self, line: &str, descriptor: impl AsFd) -> io::Result<()> {
        self.send(line, &[descriptor.as_fd()])
    }

    /// Returns the next line, without its end. The end of the connection is an error.
    pub(super) fn receive_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.read.iter().position(|&byte| byte == b'\n') {
                let mut line: Vec<u8> = self.read.drain(..=end).collect();
                line.pop();
                return String::from_utf8(line).map_err(|_| {
                    io::Error::new(io::ErrorKind::InvalidData, "a line is not UTF-8")
                });
            }
            if self.read.len() > bounds::UPGRADE_LINE {
                let message = "a line is too long";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.receive()?;
        }
    }

    /// Returns the process id of the other end.
    pub(super) fn peer(&self) -> io::Result<i32> {
        Ok(socket_peercred(&self.stream)?.pid.as_raw_nonzero().get())
    }

    /// Returns the descriptor of the line that was just received, if it had one.
    pub(super) fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    fn send(&self, line: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = format!("{line}\n");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(io::Error::other("more descriptors than a line has"));
        }
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = [IoSlice::new(&bytes.as_bytes()[sent..])];
            sent += rustix::io::retry_on_intr(|| {
                sendmsg(&self.stream, &rest, &mut ancillary, SendFlags::NOSIGNAL)
            })?;
            // They went with the first bytes.
            ancillary.clear();
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            let mut room = [IoSliceMut::new(&mut bytes)];
            // Close-on-exec, so that no program that the gateway starts inherits one by accident.
            recvmsg(
                &self.stream,
                &mut room,
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            )
        })?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        if self.descriptors.len() > bounds::UPGRADE_DESCRIPTORS {
            return Err(io::Error::other("too many descriptors"));
        }
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read.extend(&bytes[..received.bytes]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Goal: sockets arrive with their lines, however the kernel joins them. Method: a line without, many with one and one
    /// without are sent before any is received; each socket must have the address of its line.
    #[test]
    fn each_socket_arrives_with_its_line() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let said = UpgradeChannel::over(one, PATIENCE).expect("timeouts");
        let mut heard = UpgradeChannel::over(other, PATIENCE).expect("timeouts");
        said.send_line("first").expect("room");
        let sockets: Vec<_> = (0..20)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
            .collect();
        for socket in &sockets {
            let address = socket.local_addr().expect("an address");
            said.send_with_descriptor(&address.to_string(), socket)
                .expect("room");
        }
        said.send_line("end").expect("room");
        assert_eq!(heard.receive_line().expect("a line"), "first");
        for _ in &sockets {
            let line = heard.receive_line().expect("a line");
            let socket = TcpListener::from(heard.descriptor().expect("its socket"));
            assert_eq!(socket.local_addr().expect("an address").to_string(), line);
        }
        assert_eq!(heard.receive_line().expect("a line"), "end");
        assert!(heard.descriptor().is_none());
        drop(said);
        let end = heard.receive_line().expect_err("the end");
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    /// Goal: a peer that sends garbage costs no memory. Method: bytes without an end.
    #[test]
    fn a_line_without_end_is_refused() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let said = UpgradeChannel::over(one, PATIENCE).expect("timeouts");
        let mut heard = UpgradeChannel::over(other, PATIENCE).expect("timeouts");
        let long = "x".repeat(2 * bounds::UPGRADE_LINE);
        said.send_line(&long).expect("room");
        let refused = heard.receive_line().expect_err("too long");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
