# HLS for very many viewers (Varnish 6.0 and later): each playlist and each segment is fetched once, whoever asks for it.
#
#   tollgate --token-server=… --listen=127.0.0.1:8000
#   varnishd -a :80 -s malloc,256m -f …/varnish-hls.vcl
#
# Players get http://HOST/stream/ID/index.m3u8. What may be kept for how long is said by tollgate (docs/hls.md), so a token that is
# revoked ends here, too: with the next playlist, and for who knows a segment's name a minute later. Sources, calls and viewers of
# the stream itself do not go this way.

vcl 4.1;

backend tollgate {
    .host = "127.0.0.1";
    .port = "8000";
    # A playlist that is asked for ahead is waited for: three target durations.
    .first_byte_timeout = 120s;
}

sub vcl_recv {
    if (req.method != "GET" && req.method != "HEAD") {
        return (synth(405));
    }
    if (req.url !~ "^/stream/[^/?]+/[^/?]+(\?.*)?$") {
        return (synth(404));
    }
    # They mean nothing to tollgate, and would keep what comes out of the cache.
    unset req.http.Cookie;
    unset req.http.Authorization;
    return (hash);
}

sub vcl_hash {
    # Varnish adds Host by itself. An answer is the same under each name, so it is fetched once for all of them.
    hash_data(req.url);
    return (lookup);
}

sub vcl_backend_response {
    # What is too old is not given out, whatever goes wrong: a token may have been revoked.
    set beresp.grace = 0s;
    set beresp.keep = 0s;
    if (beresp.http.Cache-Control ~ "no-store") {
        # A segment that is not there yet will be: others who ask meanwhile do not wait for this answer.
        set beresp.uncacheable = true;
        set beresp.ttl = 1s;
    }
    return (deliver);
}
