// test/clients/jdbc.java: pgjdbc's CopyManager, from a stream and by CopyIn; batches of prepared
// statements, which the driver rewrites to INSERTs of many rows with reWriteBatchedInserts; batches
// with an error in a savepoint.
//
// Packages: default-jdk-headless libpostgresql-jdbc-java
// Maven: org.postgresql:postgresql:42.7.8
// Batched: 500000
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Savepoint;
import java.sql.SQLException;
import java.sql.Statement;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;
import org.postgresql.copy.CopyManager;

class Jdbc {
	static final int ROWS = 60000;

	static Connection connect(boolean rewrite) throws SQLException {
		return DriverManager.getConnection(
			"jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/"
				+ System.getenv("PGDATABASE") + "?reWriteBatchedInserts=" + rewrite,
			System.getenv("PGUSER"), System.getenv("PGPASSWORD"));
	}

	static void make(Connection connection, String table) throws SQLException {
		String tree = System.getenv("TREE"), hash = System.getenv("HASH");
		try (Statement statement = connection.createStatement()) {
			statement.execute("CREATE TABLE " + table
				+ " (id int PRIMARY KEY, device int, kind text, value float8)");
			statement.execute("CREATE INDEX ON " + table + " USING " + tree + " (device, value)");
			statement.execute("CREATE INDEX ON " + table + " USING " + tree + " (value)");
			statement.execute("CREATE INDEX ON " + table + " USING " + tree + " (kind, id DESC)");
			statement.execute("CREATE INDEX ON " + table + " USING " + hash + " (device)");
		}
	}

	static int device(int i) { return (int) (i * 7919L % 1009); }

	static String line(int i) {
		return i + "\t" + device(i) + "\tkind " + i % 37 + "\t" + i / 8.0 + "\n";
	}

	static void copy(Connection connection, String table) throws Exception {
		CopyManager manager = connection.unwrap(PGConnection.class).getCopyAPI();
		StringBuilder lines = new StringBuilder();
		for (int i = 0; i < ROWS; i++)
			lines.append(line(i));
		check(manager.copyIn("COPY " + table + " FROM STDIN",
			new StringReader(lines.toString())), ROWS);
		CopyIn in = manager.copyIn("COPY " + table + " FROM STDIN");
		for (int i = ROWS; i < 2 * ROWS; i++) {
			byte[] bytes = line(i).getBytes(StandardCharsets.UTF_8);
			in.writeToCopy(bytes, 0, bytes.length);
		}
		check(in.endCopy(), ROWS);
		CopyIn cancelled = manager.copyIn("COPY " + table + " FROM STDIN");
		byte[] bytes = line(5 * ROWS).getBytes(StandardCharsets.UTF_8);
		cancelled.writeToCopy(bytes, 0, bytes.length);
		cancelled.cancelCopy();
	}

	static void batch(Connection connection, String table, int first, int last) throws SQLException {
		try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + table
				+ " (id, device, kind, value) VALUES (?, ?, ?, ?)")) {
			for (int i = first; i < last; i++) {
				insert.setInt(1, i);
				insert.setInt(2, device(i));
				insert.setString(3, "kind " + i % 37);
				insert.setDouble(4, i / 8.0);
				insert.addBatch();
				if (i % 5000 == 4999 || i == last - 1)
					insert.executeBatch();
			}
		}
	}

	static void failing(Connection connection, String table) throws SQLException {
		Savepoint savepoint = connection.setSavepoint();
		try {
			batch(connection, table, 6 * ROWS, 6 * ROWS + 1000);
			batch(connection, table, 17, 18);
			throw new AssertionError("a duplicate was accepted");
		} catch (BatchUpdateException expected) {
			connection.rollback(savepoint);
		}
	}

	static void check(long value, long expected) {
		if (value != expected)
			throw new AssertionError(value + ", expected " + expected);
	}

	public static void main(String[] args) throws Exception {
		try (Connection connection = connect(false)) {
			Files.writeString(Path.of("version"), connection.getMetaData().getDriverVersion() + "\n");
			make(connection, "copied");
			copy(connection, "copied");
			connection.setAutoCommit(false);
			make(connection, "single");
			batch(connection, "single", 0, 5000);
			connection.commit();
		}
		try (Connection connection = connect(true)) {
			connection.setAutoCommit(false);
			make(connection, "rewritten");
			batch(connection, "rewritten", 0, ROWS / 2);
			failing(connection, "rewritten");
			connection.commit();
			int expected = 0;
			for (int i = 0; i < ROWS / 2; i++)
				expected += device(i) == 500 ? 1 : 0;
			try (Statement statement = connection.createStatement(); ResultSet result = statement
					.executeQuery("SELECT count(*) FROM rewritten WHERE device = 500")) {
				result.next();
				check(result.getLong(1), expected);
			}
		}
	}
}
