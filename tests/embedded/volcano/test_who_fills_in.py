"""The API server notes which fields of a custom object were there before admission, as a real one does."""

import json

import aiohttp

from tests.embedded.support import cluster, run, until

BARE = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "bare"},
    "spec": {"tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]},
}


def test_schema_and_admission_are_told_apart():
    """Retries and queue are the schema's, schedulerName and minAvailable the admission's, tasks were sent."""
    from aiohttp import web

    from pytest_gpucluster.embedded.api.server import ApiServer

    async def scenario():
        async with cluster(volcano=True) as runtime:
            server = ApiServer(runtime)
            runner = web.AppRunner(server.app())
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            await until(
                runtime,
                lambda: (runtime.store.peek("Queue", None, "default") or {}).get("status", {}).get("state"),
            )
            url = f"http://{host}:{port}/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs?dryRun=All"
            try:
                async with (
                    aiohttp.ClientSession() as client,
                    client.post(url, data=json.dumps(BARE)) as answer,
                ):
                    made = await answer.json()
            finally:
                server.close()
                await runner.cleanup()
            assert made["spec"]["schedulerName"] == "volcano"
            assert made["spec"]["queue"] == "default"
            (note,) = made["metadata"]["managedFields"]
            assert note["operation"] == "Update"
            assert set(note["fieldsV1"]["f:spec"]) == {"f:maxRetry", "f:queue", "f:tasks"}

    run(scenario())
