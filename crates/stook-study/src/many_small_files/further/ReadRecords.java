import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * Reads the records of a sample out of one file or out of many, in the way that the study of many
 * small files describes, and prints what it took: nanoseconds, records, bytes, and a sum of all
 * bytes where one is asked for. Starting Java is not part of that time.
 */
public final class ReadRecords {
    private static final int ONE_FILE_BUFFER_LEN = 64 << 10;
    private static final int HEAD_LEN = 8;
    /** Those of FNV-1a with 64 bits. */
    private static final long SUM_START = 0xcbf29ce484222325L;
    private static final long SUM_FACTOR = 0x100000001b3L;

    private final boolean isSummed;
    private final List<Integer> numbers = new ArrayList<>();
    private long bytes;
    private long sum = SUM_START;

    private ReadRecords(boolean isSummed) {
        this.isSummed = isSummed;
    }

    public static void main(String[] words) throws IOException {
        ReadRecords reader = new ReadRecords(words[0].equals("sum"));
        long began = System.nanoTime();
        if (words[1].equals("one")) {
            reader.readOneFile(new File(words[2]));
        } else if (words[1].equals("files")) {
            reader.readFiles(words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
        } else if (!words[1].equals("nothing")) {
            throw new IllegalArgumentException(words[1]);
        }
        long took = System.nanoTime() - began;
        System.out.println(took + " " + reader.numbers.size() + " " + reader.bytes + " "
            + Long.toUnsignedString(reader.sum));
    }

    private void readOneFile(File file) throws IOException {
        long left = file.length();
        try (DataInputStream in = opened(file, ONE_FILE_BUFFER_LEN)) {
            while (left > 0) {
                left -= readRecord(in);
            }
        }
    }

    private void readFiles(String root, int count, int dataLen) throws IOException {
        int digits = String.valueOf(count).length();
        for (int number = 0; number < count; number++) {
            try (DataInputStream in = opened(new File(root, pathOf(number, digits)), dataLen + HEAD_LEN)) {
                readRecord(in);
            }
        }
    }

    private static DataInputStream opened(File file, int bufferLen) throws IOException {
        return new DataInputStream(new BufferedInputStream(new FileInputStream(file), bufferLen));
    }

    private static String pathOf(int number, int digits) {
        String all = String.valueOf(number);
        StringBuilder path = new StringBuilder("0".repeat(digits - all.length())).append(all);
        for (int at = 2; at < path.length(); at += 3) {
            path.insert(at, '/');
        }
        return path.toString();
    }

    private int readRecord(DataInputStream in) throws IOException {
        int number = in.readInt();
        byte[] data = new byte[in.readInt()];
        in.readFully(data);
        numbers.add(number);
        bytes += HEAD_LEN + data.length;
        if (isSummed) {
            addNumber(number);
            addNumber(data.length);
            for (byte one : data) {
                add(one);
            }
        }
        return HEAD_LEN + data.length;
    }

    private void addNumber(int number) {
        for (int shift = 24; shift >= 0; shift -= 8) {
            add((byte) (number >>> shift));
        }
    }

    private void add(byte one) {
        sum = (sum ^ (one & 0xff)) * SUM_FACTOR;
    }
}
