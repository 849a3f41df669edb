//! Lists the files of the page, which are part of the binary: one line each.

/// A file of the page.
#[derive(Debug)]
pub(super) struct UiAsset {
    /// Its path below `/ui/`; empty for the page itself.
    pub path: &'static str,
    /// Its `Content-Type`.
    pub content_type: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($path:literal, $content_type:ident, $file:literal;)*) => {
        /// Every file. A new one is a line here.
        pub(super) static ASSETS: &[UiAsset] = &[$(
            UiAsset {
                path: $path,
                content_type: $content_type,
                bytes: include_bytes!(concat!("../../../../ui/", $file)),
            },
        )*];
    };
}

assets! {
    "", HTML, "index.html";
    "style.css", CSS, "style.css";
    "icon.svg", SVG, "icon.svg";
    "app.js", JS, "app.js";
    "access.js", JS, "access.js";
    "stream.js", JS, "stream.js";
    "series.js", JS, "series.js";
    "dom.js", JS, "dom.js";
    "chart.js", JS, "chart.js";
    "history.js", JS, "history.js";
    "headline.js", JS, "headline.js";
    "views/overview.js", JS, "views/overview.js";
    "views/limits.js", JS, "views/limits.js";
    "views/limit.js", JS, "views/limit.js";
    "views/usage.js", JS, "views/usage.js";
    "views/keys.js", JS, "views/keys.js";
    "views/explain.js", JS, "views/explain.js";
    "views/configuration.js", JS, "views/configuration.js";
    "views/rejections.js", JS, "views/rejections.js";
    "views/clients.js", JS, "views/clients.js";
    "views/rules.js", JS, "views/rules.js";
    "views/rule-dialog.js", JS, "views/rule-dialog.js";
    "views/unban.js", JS, "views/unban.js";
    "playground/playground.html", HTML, "playground/playground.html";
    "playground/playground.css", CSS, "playground/playground.css";
    "playground/playground.js", JS, "playground/playground.js";
    "playground/fields.js", JS, "playground/fields.js";
    "playground/lane-view.js", JS, "playground/lane-view.js";
    "playground/lanes.js", JS, "playground/lanes.js";
    "playground/picture.js", JS, "playground/picture.js";
    "playground/run.js", JS, "playground/run.js";
    "playground/scenes.js", JS, "playground/scenes.js";
    "playground/share.js", JS, "playground/share.js";
    "playground/engine/begun-window.js", JS, "playground/engine/begun-window.js";
    "playground/engine/drain.js", JS, "playground/engine/drain.js";
    "playground/engine/exact.js", JS, "playground/engine/exact.js";
    "playground/engine/fixed-window.js", JS, "playground/engine/fixed-window.js";
    "playground/engine/gcra.js", JS, "playground/engine/gcra.js";
    "playground/engine/key-phase.js", JS, "playground/engine/key-phase.js";
    "playground/engine/leaky-bucket.js", JS, "playground/engine/leaky-bucket.js";
    "playground/engine/limit.js", JS, "playground/engine/limit.js";
    "playground/engine/mark.js", JS, "playground/engine/mark.js";
    "playground/engine/sliding-window.js", JS, "playground/engine/sliding-window.js";
    "playground/engine/time.js", JS, "playground/engine/time.js";
    "playground/engine/token-bucket.js", JS, "playground/engine/token-bucket.js";
}
