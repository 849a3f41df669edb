//! `auth_request` of a real nginx, by the file that ships.

use super::*;

/// nginx with `nginx.conf` in its `http` block.
async fn nginx(asks: SocketAddr, site: &Origin, more: &[(&str, &str)]) -> AskingProxy {
    let address = free_address();
    let mut servers = example(
        "nginx.conf",
        &[
            ("listen 80;", &format!("listen {address};")),
            ("127.0.0.1:9001", &asks.to_string()),
            ("127.0.0.1:3000", &site.address().to_string()),
        ],
    );
    for (shipped, tested) in more {
        assert!(servers.contains(shipped), "{shipped}");
        servers = servers.replace(shipped, tested);
    }
    let file = format!(
        "daemon off;\nmaster_process off;\npid {{home}}/nginx.pid;\nevents {{}}\nhttp {{\n\
         access_log off;\nerror_log {{home}}/error.log warn;\nclient_body_temp_path {{home}}/body;\n\
         proxy_temp_path {{home}}/proxy;\nfastcgi_temp_path {{home}}/fastcgi;\nuwsgi_temp_path {{home}}/uwsgi;\n\
         scgi_temp_path {{home}}/scgi;\n{servers}\n}}\n"
    );
    let arguments = ["-p", ".", "-c", "nginx.conf", "-e", "stderr.log"];
    AskingProxy::start("nginx", &arguments, &[("nginx.conf", file)], address).await
}

#[tokio::test]
async fn nginx_asks_before_it_forwards() {
    // Goal: the recipe limits clients of nginx, who get 429 with the fields, and no error is logged for it. Method: a client that names
    // other paths, methods and addresses in every field that could count, through the real nginx.
    let site = Origin::echo();
    let (gateway, asks) = gateway().await;
    let nginx = nginx(asks, &site, &[]).await;
    assert_limits(&nginx, &site).await;
    assert_logged(&gateway, "127.0.0.31").await;
    let errors = fs::read_to_string(nginx.directory.path().join("error.log")).unwrap();
    assert_eq!(errors, "");
    assert_eq!(answer_without(gateway, &nginx, &site).await, 500);
}

#[tokio::test]
async fn nginx_can_forward_while_nobody_decides() {
    // Goal: the line that the recipe offers for it lets requests pass while the gateway is away, and limits them as before while it is
    // there. Method: the file with this line, before and after a kill.
    let site = Origin::echo();
    let (mut gateway, asks) = gateway().await;
    let line = "error_page 502 504 = @unavailable;";
    let nginx = nginx(asks, &site, &[(&format!("#{line}"), line)]).await;
    assert_limits(&nginx, &site).await;
    gateway.kill();
    let answer = nginx
        .client_from("127.0.0.31")
        .await
        .send(post("/auth/sendOTP"))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
