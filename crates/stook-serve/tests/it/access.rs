//! Who may ask.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use stook::ops::copy::OpenGiven;
use stook_serve::{Error, ServeOptions, Server, Token};

use super::Served;

#[test]
fn without_the_token_there_is_no_answer_but_that() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("x"), "x").unwrap();
    let options = ServeOptions { token: Some(Token::new(b"open sesame")), ..ServeOptions::default() };
    let served = Served::with(directory.path(), options);
    let basic = format!("Basic {}", STANDARD.encode("anybody:open sesame"));
    for right in ["Bearer open sesame", basic.as_str()] {
        assert_eq!(served.ask("GET", "/x", &[("Authorization", right)]).text(), "x");
    }
    let wrong = format!("Basic {}", STANDARD.encode("open sesame:"));
    for wrong in ["", "Bearer", "Bearer open", wrong.as_str()] {
        for path in ["/", "/x", "/nothing", "/?as=tar"] {
            let reply = served.ask("GET", path, &[("Authorization", wrong)]);
            assert_eq!((reply.status, reply.text().contains('x')), (401, false), "{wrong} {path}");
            assert!(reply.header("www-authenticate").unwrap().starts_with("Basic "));
        }
    }
    assert_eq!(served.get("/x").status, 401);
    // A proxy before it may have any name.
    let fields = [("Authorization", "Bearer open sesame"), ("Host", "files.example")];
    assert_eq!(served.ask("GET", "/x", &fields).status, 200);
}

#[test]
fn without_a_token_only_this_machine_is_meant() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path());
    for (host, status) in [("localhost:1", 200), ("127.0.0.1", 200), ("evil.example", 403), ("", 403)] {
        assert_eq!(served.ask("GET", "/", &[("Host", host)]).status, status, "{host}");
    }
    assert_eq!(served.ask("GET", "http://evil.example/", &[("Host", "localhost")]).status, 403);
    let bind = |options: ServeOptions| {
        let given = OpenGiven::default().open(directory.path(), &mut |_| true).unwrap();
        Server::bind(given.into_source().unwrap(), options, Arc::new(drop))
    };
    let open = ServeOptions { listen: SocketAddr::from(([0, 0, 0, 0], 0)), ..ServeOptions::default() };
    assert!(matches!(bind(open.clone()), Err(Error::Open(_))));
    assert!(bind(ServeOptions { public: true, ..open.clone() }).is_ok());
    assert!(bind(ServeOptions { token: Some(Token::new(b"t")), ..open.clone() }).is_ok());
    // Neither is dropped for the other, also where only this machine can connect.
    for listen in [open.listen, ServeOptions::default().listen] {
        let both = ServeOptions { listen, token: Some(Token::new(b"t")), public: true, ..open.clone() };
        assert!(matches!(bind(both), Err(Error::TokenAndPublic)));
    }
    let taken = ServeOptions { listen: served.address, ..ServeOptions::default() };
    assert!(matches!(bind(taken), Err(Error::Listen { .. })));
}
