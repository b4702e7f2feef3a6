# tests/comfy/support/front.py: python3 front.py PORT: a process of its own that listens for what serves at PORT, so that each of several stand-ins has
# a process number. Prints its own port.
import asyncio
import sys


async def copy(reader, writer):
    try:
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def serve(port):
    async def accept(reader, writer):
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(f"front at {server.sockets[0].getsockname()[1]}.", flush=True)
    await server.serve_forever()


asyncio.run(serve(int(sys.argv[1])))
