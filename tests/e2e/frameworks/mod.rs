//! The framework matrix: each real framework behind the gateway, asked in every spelling by which a limit might be walked around.
//!
//! What counts is how the framework read the request that it got, which its application says itself. A request must have been counted, or
//! rejected, wherever the framework takes it for the limited one.

mod bodies;
mod conditions;
mod credentials;
mod generated;
mod ids;
mod paths;
mod values;
mod wrapped;

use crate::harness::*;

/// Makes one test a framework of `async fn check(framework: Framework)`. One that is not required is left out where it is not installed.
macro_rules! before_each_framework {
    ($check:path) => {
        $crate::frameworks::before_each_framework!(
            $check,
            php: Php, php_front_controller: PhpFrontController, apache: Apache, flask: Flask, django: Django, node: Node,
            rack: Rack, puma: Puma, rails: Rails, cherrypy: CherryPy, express: Express, bottle: Bottle, tornado: Tornado,
            webob: WebOb,
        );
    };
    ($check:path, $($name:ident: $framework:ident,)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                if Framework::$framework.is_at_hand() {
                    $check(Framework::$framework).await;
                }
            }
        )*
    };
}
use before_each_framework;

mod headers;

/// Starts a framework, and a gateway with these rules before it.
async fn started(framework: Framework, rules: &str) -> (FrameworkServer, Gateway) {
    let server = framework.start().await;
    let setup = Setup::new().servers("app", &[server.address()]);
    let gateway = setup.rules(rules).start().await;
    (server, gateway)
}

/// Returns a limit for each place with its key, and a route with the limit.
fn limits_by(keys: &[(&str, &str)], on_missing: &str, rate: &str) -> String {
    let rules = keys.iter().map(|(place, key)| {
        format!(
            "[limit.{place}]\nkey = \"{key}\"\non_missing = \"{on_missing}\"\nrates = [\"{rate}\"]\n\
             [[route]]\npath = \"/{place}\"\nlimits = [\"{place}\"]\norigin = \"app\"\n"
        )
    });
    rules.collect()
}

/// The application says what it reads of a plain request.
mod plain {
    use super::*;

    before_each_framework!(reads_a_plain_request);

    async fn reads_a_plain_request(framework: Framework) {
        // Goal: the matrix sees what an application sees. Method: a form with a query, a cookie and a field at the limited path, and
        // another path.
        let (_server, gateway) =
            started(framework, "[[route]]\npath = \"/*\"\norigin = \"app\"").await;
        let asked = |path: &str| {
            post(&format!("{path}?user=ann"))
                .header("content-type", "application/x-www-form-urlencoded")
                .header("cookie", "sid=s1")
                .header("x-api-key", "k1")
                .body("phone=123")
        };
        let answer = gateway.send(asked(LIMITED)).await;
        let reading = Reading::of(&answer).unwrap_or_else(|| panic!("{answer:?}"));
        assert!(Reading::is_limited(&answer), "{}", reading.paths());
        assert_eq!(reading.method(), "POST");
        assert!(reading.form("phone").contains(&"123"), "{reading:?}");
        assert!(reading.query("user").contains(&"ann"), "{reading:?}");
        assert_eq!(reading.cookie("sid"), ["s1"]);
        assert_eq!(reading.header("x-api-key"), ["k1"]);
        let other = gateway.send(asked("/auth/other")).await;
        assert!(Reading::of(&other).is_some(), "{other:?}");
        assert!(!Reading::is_limited(&other));
    }
}
