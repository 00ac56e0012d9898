"""Secrets by kind, as they stand in logs, messages and values: none of them may be written or printed.

Each is made up; where a scanner of repositories would take one for real, it is put together from parts.
"""

import base64
import dataclasses
import json

X40 = "wJa1rXUtnFEMI0K7MDENGbPxRfiCYzEQ4mP2LE9v"
X24 = "q9Zt4KxW7mB2vR8sD5nJ3hLc"
HEX40 = "9f3b1c7a0e5d48264b6fa19c83d70e52b4c6f81d"
HEX32 = HEX40[:32]
LOWER = "x7k2m9q4w8r3t6y1p5z0b4n8"
WORD = "hunter2-horse"
PEM_LINES = tuple(
    base64.b64encode(bytes((n * 37 + i * 11) % 256 for i in range(48))).decode() for n in range(1, 5)
)


@dataclasses.dataclass(frozen=True)
class Canary:
    """One secret in its surroundings.

    Attributes:
        kind: what it is.
        text: how it stands in a log or in a value.
        parts: what must not be found afterwards.
    """

    kind: str
    text: str
    parts: tuple[str, ...]


def _of(kind: str, text: str, *parts: str) -> Canary:
    assert parts, kind
    assert all(part in text for part in parts), kind
    return Canary(kind, text, parts)


def _key(kind: str, prefix: str, rest: str = X24, around: str = "using {} now") -> Canary:
    return _of(kind, around.format(prefix + rest), rest)


def _pem(kind: str, name: str) -> Canary:
    text = "\n".join((f"-----BEGIN {name}-----", *PEM_LINES, f"-----END {name}-----"))
    return _of(kind, f"read key:\n{text}\ndone", *PEM_LINES)


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


JWT = ".".join(
    (_b64('{"alg":"RS256"}').rstrip("="), _b64('{"sub":"system:serviceaccount:ml:default"}').rstrip("="), X40)
)

KEYS = [
    _key("AWS access key", "AKIA", "IOSFODNN7QRSTUVW"),
    _key("AWS temporary key", "ASIA", "Y34FZKBOKMUTVV7A"),
    _key("AWS secret key", "", X40),
    _key("Google API key", "AIza", "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"),
    _key("Google OAuth secret", "GOCSPX-", X24),
    _key("Google access token", "ya29.", f"a0Af{X40}"),
    _key("Azure client secret", "abc8Q~", "dEfGh1jKlMn0pQrStUvWxYz~.12345678"),
    _key("Alibaba key", "LTAI", "5tQnKxz9PmVb4LwE"),
    _key("DigitalOcean token", "dop_v1_", HEX40 + HEX40[:24]),
    _key("Databricks token", "dapi", HEX32),
    _key("Hugging Face token", "hf_", "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"),
    _key("NVIDIA key", "nvapi-", X40),
    _key("OpenAI key", "sk-", f"proj-{X40}"),
    _key("Anthropic key", "sk-ant-", f"api03-{X40}"),
    _key("Groq key", "gsk_", X40),
    _key("Replicate token", "r8_", X40),
    _key("npm token", "npm_", X40[:36]),
    _key("PyPI token", "pypi-", f"AgEIcHlwaS5vcmc{X40}"),
    _key("Docker Hub token", "dckr_pat_", X24),
    _key("GitHub token", "ghp_", X40[:36]),
    _key("GitHub fine token", "github_pat_", f"11ABCDEFG0{X40}"),
    _key("GitLab token", "glpat-", X24[:20]),
    _key("GitLab runner token", "glrt-", X24[:20]),
    _key("Bitbucket token", "ATBB", X24),
    _key("Atlassian token", "ATATT3", f"xFfGF0{X40}"),
    _key("Slack bot token", "xoxb-", f"123456789012-1234567890123-{X24}"),
    _key("Slack app token", "xapp-", f"1-A012345-{X24}"),
    _of("Slack hook", f"POST https://hooks.slack.com/services/T0000/B0000/{X24}", X24),
    _of("Discord hook", f"POST https://discord.com/api/webhooks/123456789/{X40}", X40),
    _key("Telegram bot", "1234567890:AA", "HdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"),
    _key("Stripe key", "sk_live_", X24),
    _key("SendGrid key", "SG.", f"ngeVfQFYQlKU0ufo8x5d1A.{X40}"),
    _key("Twilio key", "SK", HEX32),
    _key("Mailgun key", "key-", HEX32),
    _key("Grafana token", "glsa_", X40),
    _key("Sentry token", "sntrys_", X40),
    _key("New Relic key", "NRAK-", "A1B2C3D4E5F6G7H8I9J0K1L2M3N"),
    _key("Vault token", "hvs.", X24),
    _key("Vault token of old", "s.", X24),
    _key("Terraform token", "AbCdEf12345678.atlasv1.", X40),
    _key("Doppler token", "dp.pt.", X40),
    _key("age key", "AGE-SECRET-KEY-1", "QQPQZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    _key("Tailscale key", "tskey-auth-", X24),
    _key("Linear key", "lin_api_", X40),
    _key("bcrypt hash", "$2y$10$", "N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"),
    _key("shadow hash", "$6$", "rounds1$GX4OPYLX2YKNlDnNHTYLqRjk0Y9yqM4U8Tz1"),
    _key("bootstrap token", "kubeadm join 10.0.0.1:6443 --token ", "abcdef.0123456789abcdef"),
    _key("W&B key", "wandb: logging in with ", HEX40),
    _key("hexadecimal key", "", HEX40),
    _key("key in small letters", "", LOWER),
    _key("base64", "", _b64(f"user:{WORD}")),
    _key("JSON Web Token", "", JWT),
]

FRAMED = [
    _pem("RSA key", "RSA PRIVATE KEY"),
    _pem("OpenSSH key", "OPENSSH PRIVATE KEY"),
    _pem("key in PKCS 8", "ENCRYPTED PRIVATE KEY"),
    _pem("PGP key", "PGP PRIVATE KEY BLOCK"),
    _of(
        "PEM in JSON",
        json.dumps(
            {"private_key": f"-----BEGIN PRIVATE KEY-----\n{PEM_LINES[0]}\n-----END PRIVATE KEY-----\n"}
        ),
        PEM_LINES[0],
    ),
    _of("PEM cut off", f"-----BEGIN PRIVATE KEY-----\n{PEM_LINES[0]}\n{PEM_LINES[1]}", *PEM_LINES[:2]),
    _of(
        "JWT over lines",
        "token\n" + "\n".join(JWT[n : n + 40] for n in range(0, len(JWT), 40)),
        *(JWT[n : n + 40] for n in range(0, len(JWT) - 40, 40)),
    ),
    _of("base64 over lines", "blob:\n" + "\n".join(PEM_LINES), *PEM_LINES),
    _of(
        "service account",
        json.dumps({"type": "service_account", "private_key_id": HEX40, "client_email": "a@b.iam"}),
        HEX40,
    ),
    _of(
        "kubeconfig",
        f"users:\n- name: admin\n  user:\n    client-key-data: {_b64(WORD * 4)}\n    token: {WORD}",
        _b64(WORD * 4),
        WORD,
    ),
    _of(
        "docker config",
        json.dumps({"auths": {"r.example": {"auth": _b64(f"u:{WORD}"), "password": WORD}}}),
        _b64(f"u:{WORD}"),
        WORD,
    ),
    _of(
        "docker config in JSON",
        json.dumps({"d": json.dumps({"auths": {"r.example": {"password": WORD}}})}),
        WORD,
    ),
    _of("docker config twice in JSON", json.dumps(json.dumps({"d": json.dumps({"password": WORD})})), WORD),
    _of("netrc", f"machine huggingface.co login me password {WORD}", WORD),
    _of("pgpass", f"db.example:5432:train:me:{WORD}", WORD),
    _of("YAML block", f"data:\n  password: |\n    {WORD}\nnext: 1", WORD),
    _of("YAML with blanks", f"password: correct {WORD} battery", WORD),
    _of("XML", f"<user>me</user><password>{WORD}</password>", WORD),
    _of("TOML", f'api_key = "{WORD}"', WORD),
    _of("Python", f"config = {{'user': 'me', 'password': '{WORD}'}}", WORD),
    _of("Ruby", f':password => "{WORD}"', WORD),
]

NAMED = [
    _of("variable", f"HF_TOKEN={WORD}", WORD),
    _of("export", f"export WANDB_API_KEY='{WORD} with blanks'", WORD),
    _of("variable of a database", f"DB_PASS={WORD} PGPASSWORD={WORD}", WORD),
    _of("variable with a number", f"TOKEN_2={WORD}", WORD),
    _of("variable of an environment", f"API_TOKEN_PROD={WORD}", WORD),
    _of(
        "Azure storage",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={X40}==;EndpointSuffix=x",
        X40,
    ),
    _of("Azure bus", f"Endpoint=sb://x/;SharedAccessKeyName=root;SharedAccessKey={X40}=", X40),
    _of("ODBC", f"Driver=x;Server=db;UID=me;PWD={WORD};", WORD),
    _of("option", f"train.py --token {WORD} --lr 1e-4", WORD),
    _of("option with a sign", f"train.py --token={WORD}", WORD),
    _of("option in quotes", f"train.py --hf-token '{WORD} x'", WORD),
    _of("option with one dash", f"java -password {WORD}", WORD),
    _of("short option of curl", f"curl -s -u me:{WORD} https://x", WORD),
    _of("short option of mysql", f"mysql -h db -u me -p{WORD}", WORD),
    _of("short option of docker", f"docker login -u me -p {WORD} r.example", WORD),
    _of("sshpass", f"sshpass -p {WORD} ssh me@host", WORD),
    _of("bearer", f"Authorization: Bearer {WORD}", WORD),
    _of("basic", f"authorization: Basic {_b64('me:' + WORD)}", _b64("me:" + WORD)),
    _of("token of GitHub in a header", f"Authorization: token {WORD}", WORD),
    _of("header of a key", f"curl -H 'X-API-Key: {WORD}' https://x", WORD),
    _of("header of GitLab", f"PRIVATE-TOKEN: {WORD}", WORD),
    _of("cookie", f"Cookie: session={WORD}; csrf={WORD}", WORD),
    _of("set cookie", f"< set-cookie: sid={WORD}; HttpOnly", WORD),
    _of("headers of Python", f"{{'Authorization': 'Bearer {WORD}', 'Accept': '*/*'}}", WORD),
    _of("URL with a password", f"https://me:{WORD}@registry.example/v2", WORD),
    _of("URL without a user", f"redis://:{WORD}@redis:6379/0", WORD),
    _of("URL with a token alone", f"git clone https://{X24}@git.example/x.git", X24),
    _of("URL of a database", f"postgresql+psycopg2://me:{WORD}@db/train", WORD),
    _of("URL with a query", f"GET https://x/y?user=1&access_token={WORD}&z=2", WORD),
    _of(
        "URL that is signed",
        f"https://b.s3.amazonaws.com/k?X-Amz-Credential={WORD}&X-Amz-Signature={HEX40}",
        WORD,
        HEX40,
    ),
    _of("URL of Azure", f"https://a.blob.core.windows.net/c?sv=2024&sig={X24}%3D", X24),
    _of("password in a sentence", f"password is {WORD}", WORD),
    _of("password in quotes", f'login failed for me with password "{WORD}"', WORD),
    _of("token after an arrow", f"token -> {WORD}", WORD),
    _of("JSON", json.dumps({"rank": 0, "api_key": WORD, "sum": 6.0}), WORD),
    _of("JSON in a line", f"config {json.dumps({'clientSecret': WORD})}", WORD),
    _of("passcode of digits", "token: 493817", "493817"),
    _of("password of digits", "password: 4938", "4938"),
    _of("long passcode of digits", "token: 493817205518", "493817205518"),
    _of("long password of digits", "password: 493817205519", "493817205519"),
    _of("password of a state in small letters", "DB_PASSWORD=pending", "pending"),
    _of("key of digits", "api_key=917553046628", "917553046628"),
    _of("leaf of a profile", f"--gpucluster-set=fabric.env.HF_HOME={WORD}", WORD),
]

TEXTS = [*KEYS, *FRAMED, *NAMED]

KEPT = [
    "MASTER_PORT=23456",
    "secretName: ssh-keys",
    "TOKENIZERS_PARALLELISM=false",
    "topologyKey: kubernetes.io/hostname",
    "the token was refused by the server",
    "token is required, password must be set",
    "sha256 " + "0123456789abcdef" * 4,
    "registry.example/train/torch@sha256:" + "0123456789abcdef" * 4,
    "docker-pullable://python@sha256:" + "0123456789abcdef" * 4,
    'failed to create task "' + "fedcba9876543210" * 4 + '"',
    "NCCL INFO Channel 00/0 : 0[0] -> 1[0] via NET/IB/0/GDRDMA",
    "NCCL INFO comm 0x55d5c8b0a2f0 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 9d000 commId 0xb8f5d1c2a3e4f607",
    "volcano.sh/job-name=gang",
    "vcjob/hang -n c-secret: in trouble",
    "c-secret: held at the gang gate for 40 s",
    "pod ml/get-token: ImagePullBackOff",
    'MountVolume.SetUp failed for volume "x" : secret "hf-token" not found',
    "Error: couldn't find key HF_TOKEN in Secret ml/regcred",
    "Error: references non-existent secret key: hf",
    "failed to fetch anonymous token: unexpected status from https://auth.registry.example/token?scope=x: 401",
    "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.",
    "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope",
    "train-worker-7d9f8b6c5d-x2x9z 9a1f0c1e-4f5f-4f0e-9a54-6f6a2f1b9c11 gke-pool-1-a1b2c3d4-xyz1",
    "hang-master-0.17a2b3c4d5e6f708 worker.17a2b3c4d5e6f708",
    "GPU-8c3f2a1b-4f5f-4f0e-9a54-6f6a2f1b9c11 NVIDIA-H100-80GB-HBM3 mlx5_0:1",
    "resourceVersion 123456789012, node ip-10-0-12-34.eu-west-1.compute.internal i-0123456789abcdef0",
    "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5 /var/lib/kubelet/pods/9a1f0c1e-4f5f-4f0e-9a54-6f6a2f1b9c11/volumes",
    "frame #1: _ZN4c10d16ProcessGroupNCCL8WorkNCCL15checkAndThrowEv in libtorch_cuda.so",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "forward_pass=0.31 backward_pass: 1.2 tokens=4096 tokens_per_second: 120.5",
    "--token is required; pass --token or set it",
    "2026-11-30T13:33:37.123456Z E1130 reflector.go:205] failed",
    "FailedCreatePodSandBoxWithTimeoutExceeded",
    "98 pass, 2 fail; pass: 98",
    *(
        f"{pod}: {state}"
        for pod in ("secret-0", "pod my-token-1", "secret", "ml/credential-0", "c-password-0")
        for state in (
            "Error",
            "CrashLoopBackOff",
            "ContainerCreating",
            "Pending",
            "OOMKilled (exit code 137)",
            "Failed, 2 left",
        )
    ),
    "token: 17",
    "last token: 17 of 4096",
    "loss 3.1 token: 99 step: 4",
    "token=17 tokens=4096",
    "eos_token: 128009 pad_token=0 next_token: 50256",
    "secret-0: 2 restarts",
    "auth: ok",
]
"""What only resembles a secret."""
