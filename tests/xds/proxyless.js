// A client of gRPC that resolves names by xDS, and the servers that it balances over.
//
// Arguments: the port of the servers, then their addresses. Each server answers with its own address. Lines of JSON come in and go
// out: {"call": NAME, "times": N} is answered with who answered how often and what failed; {"stop": ADDRESS} and
// {"start": ADDRESS} end a server and begin it again, and are answered with the address.
'use strict';

const readline = require('readline');
const grpc = require('@grpc/grpc-js');
require('@grpc/grpc-js-xds').register();

const METHOD = '/test.Echo/Who';
const TIMEOUT_SECONDS = 30;
const same = (bytes) => bytes;

function serve(port, address) {
  const who = {
    path: METHOD,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
  const server = new grpc.Server();
  server.addService({ who }, { who: (call, reply) => reply(null, Buffer.from(address)) });
  return new Promise((resolve, reject) => {
    const credentials = grpc.ServerCredentials.createInsecure();
    server.bindAsync(`${address}:${port}`, credentials, (error) => (error ? reject(error) : resolve(server)));
  });
}

function callOnce(client) {
  const deadline = new Date(Date.now() + TIMEOUT_SECONDS * 1000);
  return new Promise((resolve) => {
    client.makeUnaryRequest(METHOD, same, same, Buffer.alloc(0), { deadline }, (error, answer) => resolve({ error, answer }));
  });
}

async function call(client, times) {
  const answered = {};
  const failed = [];
  for (let n = 0; n < times; n += 1) {
    const { error, answer } = await callOnce(client);
    if (error) {
      failed.push(`${grpc.status[error.code]}: ${error.details}`);
    } else {
      answered[answer] = (answered[answer] || 0) + 1;
    }
  }
  return { answered, failed };
}

async function main() {
  const [port, ...addresses] = process.argv.slice(2);
  const servers = {};
  for (const address of addresses) {
    servers[address] = await serve(port, address);
  }
  const clients = {};
  console.log(JSON.stringify('ready'));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    let answer;
    if (asked.stop) {
      servers[asked.stop].forceShutdown();
      answer = asked.stop;
    } else if (asked.start) {
      servers[asked.start] = await serve(port, asked.start);
      answer = asked.start;
    } else {
      const name = asked.call;
      const target = name.startsWith('xds:') ? name : `xds:///${name}`;
      // What has a parameter is no name of a host, which `:authority` has to be.
      const options = name.includes('?') ? { 'grpc.default_authority': 'web' } : {};
      clients[name] = clients[name] || new grpc.Client(target, grpc.credentials.createInsecure(), options);
      answer = await call(clients[name], asked.times);
    }
    console.log(JSON.stringify(answer));
  }
  process.exit(0);
}

main();
