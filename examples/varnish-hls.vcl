# HLS for very many viewers (Varnish 6.0 and later). The cache fetches each playlist and each segment once.
#
#   tollgate --token-server=… --listen=127.0.0.1:8000
#   varnishd -a :80 -s malloc,256m -f …/varnish-hls.vcl
#
# Players use http://HOST/stream/ID/index.m3u8. Tollgate decides how long the cache keeps each answer (docs/hls-details.md). So a revoked token ends
# here, too: with the next playlist, and within a minute for a viewer that knows a segment's name. Sources, API calls and viewers of
# the stream itself do not use this cache.

vcl 4.1;

backend tollgate {
    .host = "127.0.0.1";
    .port = "8000";
    # A blocking playlist request takes up to three target durations.
    .first_byte_timeout = 120s;
}

sub vcl_recv {
    if (req.method != "GET" && req.method != "HEAD") {
        return (synth(405));
    }
    if (req.url !~ "^/stream/[^/?]+/[^/?]+(\?.*)?$") {
        return (synth(404));
    }
    # Tollgate does not use these fields. With them, Varnish would not cache the answer.
    unset req.http.Cookie;
    unset req.http.Authorization;
    return (hash);
}

sub vcl_hash {
    # By default, Varnish includes Host. The answer is the same for each name, so one entry serves all of them.
    hash_data(req.url);
    return (lookup);
}

sub vcl_backend_response {
    # Serves nothing that is too old, since the token may have been revoked.
    set beresp.grace = 0s;
    set beresp.keep = 0s;
    if (beresp.http.Cache-Control ~ "no-store") {
        # The segment may exist soon, so other requests do not wait for this answer.
        set beresp.uncacheable = true;
        set beresp.ttl = 1s;
    }
    return (deliver);
}
