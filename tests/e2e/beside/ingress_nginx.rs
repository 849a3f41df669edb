//! `auth-url` of ingress-nginx, by the manifest that ships: a real nginx with the location that the controller writes for it.
//!
//! The lines are those of the controller's template (rootfs/etc/nginx/template/nginx.tmpl, controller 1.14) that bear on the question.

use super::*;

/// The fields of the manifest's ConfigMap, as the controller writes them into the location.
fn fields_of_the_manifest() -> String {
    let manifest = example("ingress-nginx.yaml", &[]);
    let (_, fields) = manifest.split_once("\ndata:\n").unwrap();
    let fields = fields
        .lines()
        .filter_map(|line| line.trim().split_once(": "));
    fields
        .map(|(name, value)| format!("proxy_set_header \"{name}\" {value};\n"))
        .collect()
}

async fn controller(asks: SocketAddr, site: &Origin) -> AskingProxy {
    let address = free_address();
    let url = example(
        "ingress-nginx.yaml",
        &[(
            "sluicegate.default.svc.cluster.local:9001",
            &asks.to_string(),
        )],
    );
    assert!(url.contains(&format!("auth-url: \"http://{asks}/\"")));
    let site = site.address();
    let fields = fields_of_the_manifest();
    let file = format!(
        "daemon off;\nmaster_process off;\npid {{home}}/nginx.pid;\nevents {{}}\nhttp {{\n\
         access_log off;\nerror_log {{home}}/error.log warn;\nclient_body_temp_path {{home}}/body;\n\
         proxy_temp_path {{home}}/proxy;\nfastcgi_temp_path {{home}}/fastcgi;\nuwsgi_temp_path {{home}}/uwsgi;\n\
         scgi_temp_path {{home}}/scgi;\n\
         server {{\nlisten {address};\nserver_name site.test;\n\
         location = /_external-auth-Lw-Prefix {{\n\
         internal;\n\
         proxy_intercept_errors off;\nproxy_pass_request_body off;\nproxy_set_header Content-Length \"\";\n\
         proxy_set_header X-Forwarded-Proto \"\";\nproxy_set_header X-Request-ID $request_id;\n\
         proxy_set_header Host sluicegate.default.svc.cluster.local;\n\
         proxy_set_header X-Original-URL $scheme://$http_host$request_uri;\n\
         proxy_set_header X-Original-Method $request_method;\n\
         proxy_set_header X-Sent-From \"nginx-ingress-controller\";\nproxy_set_header X-Real-IP $remote_addr;\n\
         proxy_set_header X-Forwarded-For $remote_addr;\nproxy_set_header X-Auth-Request-Redirect $request_uri;\n\
         proxy_pass_request_headers on;\n{fields}\
         proxy_http_version 1.1;\nset $target \"http://{asks}/\";\nproxy_pass $target;\n}}\n\
         location / {{\n\
         auth_request /_external-auth-Lw-Prefix;\nauth_request_set $auth_cookie $upstream_http_set_cookie;\n\
         add_header Set-Cookie $auth_cookie;\nproxy_http_version 1.1;\nproxy_pass http://{site};\n}}\n}}\n}}\n"
    );
    let arguments = ["-p", ".", "-c", "nginx.conf", "-e", "stderr.log"];
    AskingProxy::start("nginx", &arguments, &[("nginx.conf", file)], address).await
}

#[tokio::test]
async fn the_manifest_for_ingress_nginx_limits_clients() {
    // Goal: two annotations and a ConfigMap limit the clients of an Ingress. Method: the location that the controller writes for them,
    // before a client that names other paths, methods and addresses; it gets 403, since a controller without snippets has no other status.
    let site = Origin::echo();
    let (gateway, asks) = gateway().await;
    let controller = controller(asks, &site).await;
    let mut client = controller.client_from("127.0.0.31").await;
    let mut passed = 0;
    let refused = loop {
        let request = post("/auth/sendOTP?n=1")
            .header("Host", "site.test")
            .header("X-Forwarded-Method", "GET")
            .header("X-Forwarded-Uri", "/elsewhere")
            .header("X-Forwarded-Host", "elsewhere.test")
            .header("X-Forwarded-For", &format!("192.0.2.{passed}"))
            .body("phone=1");
        let answer = client.send(request).await;
        if answer.status != 200 {
            break answer;
        }
        passed += 1;
        // Two requests more may pass where a window ends meanwhile.
        assert!(passed <= 7, "nothing is refused");
    };
    assert!(passed >= 5, "{passed}");
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(site.requests().len(), passed);
    assert_logged(&gateway, "127.0.0.31").await;
    let other = get("/auth/sendOTP").header("Host", "site.test");
    assert_eq!(client.send(other).await.status, 200);
    assert_eq!(answer_without(gateway, &controller, &site).await, 500);
}
