//! Paths of nginx: expressions over decoded paths, and paths that take the place of a location's.

use super::*;
use peer::Peer;

#[tokio::test]
async fn expressions_over_decoded_paths_take_the_same_requests() {
    // Goal: an expression takes the requests that it takes in nginx, whatever bytes a path escapes. Method: locations that refuse, and
    // paths that each of them takes, and that none takes.
    let text = nginx(
        "",
        r#"location ~ "^/x y$" { deny all; }
         location ~ "^/user/[\w ]+$" { deny all; }
         location ~ "^/c.d$" { deny all; }
         location ~ "\|" { deny all; }
         location ~ "%" { deny all; }
         location ~ "\?" { deny all; }
         location ~ "^/ü$" { deny all; }
         location ~ "^/n[^a-z]z$" { deny all; }
         location ~* "^/g.{2}b$" { deny all; }
         location ~ "^/h.*2$" { deny all; }
         location "/a b" { deny all; }
         location / { proxy_pass http://127.0.0.1:8081; }"#,
    );
    let origin = Origin::echo();
    let nginx = Peer::nginx(&text, &origin).await;
    let gateway = gateway(&text, &origin).await;
    let mut statuses = std::collections::BTreeSet::new();
    for path in [
        "/x%20y",
        "/x%21y",
        "/x+y",
        "/user/a%20b",
        "/user/a-b",
        "/user/%61",
        "/c%20d",
        "/cxd",
        "/c%C3%BCd",
        "/cd",
        "/p%7Cq",
        "/p%25q",
        "/p%3Fq",
        "/%C3%BC",
        "/%c3%bc",
        "/%C3%BD",
        "/n%20z",
        "/nAz",
        "/n%61z",
        "/n2z",
        "/gx%20B",
        "/g%C3%BCb",
        "/gxb",
        "/h%C2%A2",
        "/ha2",
        "/h%32",
        "/a%20b",
        "/a%20bc",
        "/ab",
        "/other",
    ] {
        let of_nginx = Client::connect(nginx.address())
            .await
            .get(path)
            .await
            .status;
        // A path that an origin may read in two ways is refused with 400.
        let of_gateway = gateway.get(path).await.status;
        assert_eq!(of_gateway == 200, of_nginx == 200, "{path}: {of_gateway}");
        statuses.insert(of_nginx);
    }
    assert_eq!(statuses.into_iter().collect::<Vec<_>>(), [200, 403]);
}

#[tokio::test]
async fn a_path_takes_the_place_of_that_of_its_location() {
    // Goal: origins get the path that nginx sends them, but for two slashes in its middle. Method: locations and targets with a slash at
    // the end, without one, and without a path.
    let mut lines = String::new();
    let mut names = Vec::new();
    for (at, target) in ["", "/", "/z", "/z/"].into_iter().enumerate() {
        for (kind, end) in [("open", ""), ("closed", "/")] {
            let name = format!("{kind}{at}");
            let target = format!("http://127.0.0.1:8081{target}");
            lines += &format!("location /{name}{end} {{ proxy_pass {target}; }}\n");
            lines += &format!("location = /{name}/exact {{ proxy_pass {target}; }}\n");
            names.push(name);
        }
    }
    let text = nginx("", &lines);
    let origin = Origin::echo();
    let nginx = Peer::nginx(&text, &origin).await;
    let gateway = gateway(&text, &origin).await;
    for name in names {
        for rest in ["/", "/a", "/a/b%20c?x=1", "/exact", "/exacter"] {
            let path = format!("/{name}{rest}");
            let of_nginx = Client::connect(nginx.address()).await.get(&path).await;
            let of_gateway = gateway.get(&path).await;
            let sent = of_nginx.json()["target"]
                .as_str()
                .unwrap()
                .replace("//", "/");
            assert_eq!(of_gateway.json()["target"], sent, "{path}");
        }
    }
}
