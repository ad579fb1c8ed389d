"""A client of VeriSci's topics that shares no code with it: librdkafka for
Kafka, fastavro for Avro, and nothing of VeriSci's but the schema files.

    python read_verdicts.py --brokers localhost:9092 --schemas schemas/avsc -n 10
    python read_verdicts.py --brokers localhost:9092 --schemas schemas/avsc -n 1 --send my-id "Vitamin C cures colds."

prints committed verdicts, from the oldest kept, as a JSON object a line; --send
writes a claim first.
"""

import argparse
import io
import json
import pathlib
import sys
import time

import confluent_kafka
import fastavro
import fastavro.schema


class SingleObject:
    """Avro's single-object encoding for one schema file."""

    def __init__(self, path):
        raw = json.loads(path.read_text(encoding="utf-8"))
        self.schema = fastavro.parse_schema(raw)
        canonical = fastavro.schema.to_parsing_canonical_form(raw)
        # fastavro gives the fingerprint's bytes in the header's order.
        self.header = b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))

    def encode(self, record):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self.schema, record, strict=True)
        return self.header + body.getvalue()

    def decode(self, data):
        if data[: len(self.header)] != self.header:
            raise ValueError(f"the record starts with {data[:10].hex()}, not with {self.header.hex()}")
        body = io.BytesIO(data[len(self.header) :])
        record = fastavro.schemaless_reader(body, self.schema, None)
        if rest := body.read():
            raise ValueError(f"{len(rest)} bytes after the record")
        return record


def send(brokers, topic, claim, data):
    failed = []
    producer = confluent_kafka.Producer({"bootstrap.servers": brokers, "enable.idempotence": True})
    producer.produce(topic, key=claim, value=data, on_delivery=lambda err, _: err and failed.append(err))
    if producer.flush(30) or failed:
        raise SystemExit(f"the claim was not sent: {failed}")


def read(brokers, topic, count, timeout):
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "read-verdicts",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + timeout
    try:
        while count > 0:
            message = consumer.poll(0.5)
            if time.monotonic() > deadline:
                raise SystemExit(f"{count} verdicts did not come within {timeout} s")
            if message is None:
                continue
            if message.error():
                raise SystemExit(f"read {topic}: {message.error()}")
            count -= 1
            yield message
    finally:
        consumer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--schemas", required=True, type=pathlib.Path, help="folder of claim.avsc and verdict.avsc")
    parser.add_argument("--claims-topic", default="verisci.claims")
    parser.add_argument("--verdicts-topic", default="verisci.verdicts")
    parser.add_argument("--send", nargs=2, metavar=("ID", "TEXT"))
    parser.add_argument("--timeout", type=float, default=60, help="seconds for all verdicts")
    parser.add_argument("-n", "--number", type=int, required=True, help="verdicts to print")
    args = parser.parse_args()

    if args.send:
        claim_id, text = args.send
        claim = {"id": claim_id, "text": text, "source": "read_verdicts.py", "created": None, "attributes": {"client": "librdkafka"}}
        send(args.brokers, args.claims_topic, claim_id, SingleObject(args.schemas / "claim.avsc").encode(claim))
    verdict = SingleObject(args.schemas / "verdict.avsc")
    for message in read(args.brokers, args.verdicts_topic, args.number, args.timeout):
        record = verdict.decode(message.value())
        record["key"] = message.key().decode()
        print(json.dumps(record, default=lambda moment: moment.isoformat()))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
