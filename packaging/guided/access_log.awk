# Writes an access log of `lines` requests of `keys` clients, 2,000 a second. `format` is combined, or else the gateway's own.
BEGIN {
    state = 1
    for (i = 0; i < lines; i++) {
        state = (state * 69069 + 1) % 4294967296
        key = int(state / 4294967296 * keys)
        client = sprintf("10.%d.%d.%d", int(key / 65536), int(key / 256) % 256, key % 256)
        second = int(i / 2000)
        clock = sprintf("%02d:%02d:%02d", int(second / 3600) % 24, int(second / 60) % 60, second % 60)
        path = "/shop/articles/" (i % 5000) "?page=" (i % 7)
        if (format == "combined")
            printf "%s - - [21/Nov/2026:%s +0000] \"GET %s HTTP/1.1\" 200 %d \"https://shop.test/\" \"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\"\n", client, clock, path, i % 90000
        else
            printf "{\"time\":\"2026-11-21T%s.%03dZ\",\"id\":\"%032x\",\"client\":\"%s\",\"method\":\"GET\",\"host\":\"shop.test\",\"target\":\"%s\",\"protocol\":\"HTTP/1.1\",\"route\":\"all\",\"outcome\":\"forwarded\",\"remaining\":9,\"status\":200,\"bytes_in\":0,\"bytes_out\":%d,\"duration_ms\":%d.%03d,\"limits_us\":0.412,\"origin\":\"app\",\"origin_addr\":\"127.0.0.1:3000\",\"attempts\":1,\"origin_ttfb_ms\":3.042}\n", clock, i % 2000 / 2, i, client, path, i % 90000, i % 90, i % 1000
    }
}
