"""Every client, called the same way: one write to a base URL, its own retries off, short deadlines.

A caller raises what its library raises, nothing is wrapped. Clients are closed whatever happens.
"""

import asyncio
import http.client
import json
import ssl
import urllib.request
from collections.abc import Callable
from contextlib import closing
from urllib.parse import urlsplit

import aiohttp
import anthropic
import botocore.config
import botocore.session
import httpx
import openai
import requests
import urllib3

WAIT_S = 0.3
TLS = ssl.create_default_context()  # making one takes longer than most calls here
BODY = {"amount": 3}


def call_httpx(url: str, method: str = "POST", **options: object) -> None:
    with httpx.Client(timeout=WAIT_S, trust_env=False, verify=TLS, **options) as client:
        response = client.request(method, url, json=BODY)
        response.raise_for_status()
        response.json()


def call_httpx_async(url: str) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(timeout=WAIT_S, trust_env=False, verify=TLS) as client:
            response = await client.post(url, json=BODY)
            response.raise_for_status()
            response.json()

    asyncio.run(run())


def call_requests(url: str, method: str = "POST", retries: urllib3.Retry | None = None) -> None:
    with requests.Session() as session:
        session.trust_env = False
        if retries is not None:
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
        with session.request(method, url, json=BODY, timeout=WAIT_S) as response:
            response.raise_for_status()
            response.json()


def call_urllib3(url: str, method: str = "POST", retries: urllib3.Retry | bool = False) -> None:
    with urllib3.PoolManager(timeout=urllib3.Timeout(connect=WAIT_S, read=WAIT_S)) as pool:
        response = pool.request(method, url, json=BODY, retries=retries)
        data = response.data
        if response.status >= 400:
            raise Unhappy(response)
        json.loads(data)


class Unhappy(Exception):
    """What people write around urllib3, which has no error of its own for a status."""

    def __init__(self, response: object) -> None:
        super().__init__("the server did not like it")
        self.response = response


def call_aiohttp(url: str, timeout: aiohttp.ClientTimeout | None = None) -> None:
    wait = timeout or aiohttp.ClientTimeout(total=None, sock_connect=WAIT_S, sock_read=WAIT_S)

    async def run() -> None:
        async with aiohttp.ClientSession(timeout=wait) as session, session.post(url, json=BODY) as response:
            response.raise_for_status()
            await response.json()

    asyncio.run(run())


def call_aiohttp_total(url: str) -> None:
    call_aiohttp(url, aiohttp.ClientTimeout(total=WAIT_S))


def call_openai(url: str, max_retries: int = 0) -> None:
    http = openai.DefaultHttpxClient(verify=TLS, trust_env=False)
    with openai.OpenAI(
        base_url=url, api_key="k", max_retries=max_retries, timeout=WAIT_S, http_client=http
    ) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])


def call_openai_async(url: str) -> None:
    async def run() -> None:
        http = openai.DefaultAsyncHttpxClient(verify=TLS, trust_env=False)
        async with openai.AsyncOpenAI(
            base_url=url, api_key="k", max_retries=0, timeout=WAIT_S, http_client=http
        ) as client:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])

    asyncio.run(run())


def call_anthropic(url: str, max_retries: int = 0) -> None:
    http = anthropic.DefaultHttpxClient(verify=TLS, trust_env=False)
    with anthropic.Anthropic(
        base_url=url, api_key="k", max_retries=max_retries, timeout=WAIT_S, http_client=http
    ) as client:
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])


_SESSION = botocore.session.Session()


def call_botocore(url: str, attempts: int = 1) -> None:
    config = botocore.config.Config(
        connect_timeout=WAIT_S,
        read_timeout=WAIT_S,
        retries={"total_max_attempts": attempts, "mode": "standard"},
    )
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "eu-west-1"}
    with closing(_SESSION.create_client("dynamodb", endpoint_url=url, config=config, **keys)) as client:
        client.put_item(TableName="t", Item={"id": {"S": "1"}})


def call_urllib(url: str) -> None:
    data = json.dumps(BODY).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=WAIT_S) as response:
            json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise


def call_http_client(url: str) -> None:
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=WAIT_S)) as connection:
        connection.request("POST", parts.path, json.dumps(BODY), {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        if response.status >= 400:
            raise Unhappy(response)
        json.loads(data)


CALLERS: dict[str, Callable[[str], None]] = {
    "httpx": call_httpx,
    "httpx async": call_httpx_async,
    "requests": call_requests,
    "urllib3": call_urllib3,
    "aiohttp": call_aiohttp,
    "aiohttp total": call_aiohttp_total,
    "openai": call_openai,
    "openai async": call_openai_async,
    "anthropic": call_anthropic,
    "botocore": call_botocore,
    "urllib": call_urllib,
    "http.client": call_http_client,
}
