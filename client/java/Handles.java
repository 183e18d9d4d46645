import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A client of Helve in one file, as docs/clients/writing.md describes: calls in JSON, each under one identity through as
 * many tries as its deadline allows, on one node after the other.
 *
 * <pre>java Handles.java http://127.0.0.1:7400,http://127.0.0.1:7410 COUNT</pre>
 *
 * mints COUNT handles, adds to each, and prints their ids. HELVE_TOKEN is the token, if the cluster has some.
 */
public final class Handles {
    private static final Duration CALL = Duration.ofSeconds(5);
    private static final Duration FIRST_TRY = Duration.ofSeconds(1);
    /** The call was certainly not executed: it may be tried again, elsewhere, or later. */
    private static final Set<String> NOT_DONE = Set.of("OVERLOADED", "NO_LEADER", "STOPPING", "AUDIT_FAILING");
    /** It may have been executed: it is tried again under the same identity. */
    private static final Set<String> UNKNOWN = Set.of("AMBIGUOUS", "KEY_MISSING");
    /** It was refused. Any other reason is of a newer version, which may say by it that the call was executed. */
    private static final Set<String> REFUSED = Set.of("CONFLICT", "REPLAY_MISMATCH", "STALE_CALL", "TOO_EARLY", "SESSION_EXPIRED",
            "REQUEST_TOO_OLD", "TOO_LARGE", "BAD_ID", "BAD_KEY", "BAD_NAME", "BAD_LIFETIME", "CLAIMED", "BAD_REQUEST", "QUOTA",
            "DISK_FULL", "UNAUTHENTICATED", "DENIED", "WRONG_CLUSTER", "WRONG_NODE", "FORMAT_NEWER", "LIST_LAPSED", "WATCH_TOO_OLD",
            "WATCH_LAPSED", "NOT_LEADING", "CHANGE_UNDER_WAY", "NO_MEMBER", "NO_TENANT", "SEAT_TAKEN",
            "ALREADY_VOTER", "STAYS_LEARNER", "QUORUM_AT_RISK", "NODE_SILENT", "DAMAGED");
    /** Refusals that every try is given alike, so that they count even after a try whose outcome is unknown. */
    private static final Set<String> FINAL = Set.of("CONFLICT", "QUOTA", "REPLAY_MISMATCH", "TOO_LARGE", "BAD_ID", "BAD_KEY",
            "BAD_NAME", "BAD_LIFETIME", "CLAIMED", "BAD_REQUEST");
    /** Codes of the Connect protocol that refuse a call, be they a node's or a proxy's. */
    private static final Set<String> REFUSING = Set.of("invalid_argument", "out_of_range", "unauthenticated", "permission_denied");

    /** What a failed try says of the call: see the sets of reasons. */
    private enum Effect { REFUSED, NOT_DONE, UNKNOWN }

    /** A call that failed, by its reason: of the contract, or AMBIGUOUS or UNAVAILABLE at the end of its time. */
    static final class HelveException extends Exception {
        final String reason;

        HelveException(String reason, String message) {
            super(reason + ": " + message);
            this.reason = reason;
        }
    }

    private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofMillis(500)).build();
    private final SecureRandom random = new SecureRandom();
    private final List<String> endpoints;
    private final String token;
    private int next;
    /** The cluster's time less this machine's, so that request ids are of the cluster's time. */
    private long clockAheadMs;

    Handles(List<String> endpoints, String token) {
        for (String endpoint : endpoints) {
            // Every machine between could read it.
            if (token != null && !mayBeTold(URI.create(endpoint))) {
                throw new IllegalArgumentException("the token would go to " + endpoint
                    + " in plain text: use https, or set HELVE_INSECURE_TOKEN=true if you vouch for the network");
            }
        }
        this.endpoints = endpoints;
        this.token = token;
    }

    /** Whether calls to an endpoint may bear a token: over TLS, on this machine, or where that is vouched for. */
    private static boolean mayBeTold(URI endpoint) {
        String host = endpoint.getHost() == null ? "" : endpoint.getHost();
        return "https".equals(endpoint.getScheme())
            || "true".equals(System.getenv("HELVE_INSECURE_TOKEN"))
            || host.equalsIgnoreCase("localhost")
            || host.equals("[::1]")
            || host.matches("127([.](0|[1-9][0-9]{0,2})){3}");
    }

    /** A UUIDv7 of the cluster's time, as a request's identity. */
    private String identity() {
        byte[] id = new byte[16];
        random.nextBytes(id);
        long ms = System.currentTimeMillis() + clockAheadMs;
        ByteBuffer.wrap(id).putShort((short) (ms >>> 32)).putInt((int) ms);
        id[6] = (byte) (0x70 | id[6] & 0x0f);
        id[8] = (byte) (0x80 | id[8] & 0x3f);
        return "\"identity\":{\"requestId\":\"" + Base64.getEncoder().encodeToString(id) + "\"}";
    }

    /** Makes one call. The body has the identity, so that every try bears the same one. */
    String call(String rpc, String body) throws HelveException, InterruptedException {
        long end = System.nanoTime() + CALL.toNanos();
        Duration time = FIRST_TRY;
        boolean inDoubt = false;
        String last = "no node was tried";
        for (int tries = 0; System.nanoTime() < end; tries++) {
            Duration left = Duration.ofNanos(Math.max(1, end - System.nanoTime()));
            Duration limit = time.compareTo(left) < 0 ? time : left;
            time = time.multipliedBy(2);
            String endpoint = endpoints.get(Math.floorMod(next, endpoints.size()));
            try {
                HttpResponse<String> answer = send(request(endpoint, rpc, body, limit), limit);
                if (answer.statusCode() == 200) {
                    String clock = field(answer.body(), "clockMs");
                    clockAheadMs = clock.isEmpty() ? clockAheadMs : Long.parseLong(clock) - System.currentTimeMillis();
                    return answer.body();
                }
                String reason = field(answer.body(), "reason");
                last = field(answer.body(), "message");
                Effect effect = effect(answer.statusCode(), reason, field(answer.body(), "code"));
                if (effect == Effect.REFUSED) {
                    boolean counts = !inDoubt || FINAL.contains(reason);
                    String told = reason.isEmpty() ? "HTTP " + answer.statusCode() : reason;
                    throw new HelveException(counts ? told : "AMBIGUOUS", last);
                }
                inDoubt |= effect == Effect.UNKNOWN;
            } catch (java.net.ConnectException | java.net.http.HttpConnectTimeoutException notSent) {
                last = endpoint + " cannot be reached";
            } catch (IOException broken) {
                inDoubt = true;
                last = endpoint + ": " + broken;
            }
            next++;
            Thread.sleep(Math.min(200, 5L << Math.min(tries, 6)));
        }
        throw new HelveException(inDoubt ? "AMBIGUOUS" : "UNAVAILABLE", last);
    }

    /** The limit of a request ends with the head of its answer; this one is of the body, too. */
    private HttpResponse<String> send(HttpRequest request, Duration limit) throws IOException, InterruptedException {
        var answer = http.sendAsync(request, HttpResponse.BodyHandlers.ofString());
        try {
            return answer.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            throw new IOException("no whole answer in time", late);
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof IOException broken ? broken : new IOException(failed.getCause());
        } finally {
            answer.cancel(true);
        }
    }

    private static Effect effect(int status, String reason, String code) {
        if (NOT_DONE.contains(reason)) {
            return Effect.NOT_DONE;
        }
        if (UNKNOWN.contains(reason)) {
            return Effect.UNKNOWN;
        }
        if (REFUSED.contains(reason) || REFUSING.contains(code)) {
            return Effect.REFUSED;
        }
        if (!code.matches("[a-z_]+")) {
            // No error of the protocol: a proxy answered in a node's place.
            return status == 429 || status == 503 ? Effect.NOT_DONE : status >= 500 ? Effect.UNKNOWN : Effect.REFUSED;
        }
        // Without a reason it is a limit of the rate of calls. With one that is not known it may have been done.
        boolean isLimited = code.equals("resource_exhausted") && reason.isEmpty();
        return isLimited || code.equals("unimplemented") ? Effect.NOT_DONE : Effect.UNKNOWN;
    }

    private HttpRequest request(String endpoint, String rpc, String body, Duration limit) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(endpoint + "/helve.v1." + rpc))
                .timeout(limit)
                .header("Content-Type", "application/json")
                .header("Connect-Timeout-Ms", Long.toString(Math.max(1, limit.toMillis())))
                .POST(HttpRequest.BodyPublishers.ofString(body));
        return (token == null ? request : request.header("Authorization", "Bearer " + token)).build();
    }

    /** The text or number under a name that occurs once in a reply. A program of yours reads JSON with a library. */
    static String field(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\"\\s*:\\s*\"?((?:[^\"\\\\,}]|\\\\.)*+)").matcher(json);
        return found.find() ? found.group(1) : "";
    }

    static String bytes(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    String mint(String store, String value) throws HelveException, InterruptedException {
        String body = "{%s,\"store\":\"%s\",\"value\":\"%s\"}".formatted(identity(), store, bytes(value));
        return field(call("HandleService/Mint", body), "name");
    }

    /** Replaces what was read, and reads again if another was faster. */
    void add(String store, String id, int more) throws HelveException, InterruptedException {
        while (true) {
            String read = call("HandleService/Get", "{\"store\":\"%s\",\"id\":\"%s\"}".formatted(store, id));
            String value = new String(Base64.getDecoder().decode(field(read, "value")), StandardCharsets.UTF_8);
            String body = "{%s,\"store\":\"%s\",\"id\":\"%s\",\"value\":\"%s\",\"ifRevision\":\"%s\",\"lifetime\":{\"keep\":{}}}"
                    .formatted(identity(), store, id, bytes(Integer.toString(Integer.parseInt(value) + more)), field(read, "revision"));
            try {
                call("HandleService/Put", body);
                return;
            } catch (HelveException refused) {
                if (!refused.reason.equals("CONFLICT")) {
                    throw refused;
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Handles handles = new Handles(List.of(arguments[0].split(",")), System.getenv("HELVE_TOKEN"));
        for (int count = 0; count < Integer.parseInt(arguments[1]); count++) {
            String id = handles.mint("java", "40");
            handles.add("java", id, 2);
            System.out.println(id);
        }
    }
}
